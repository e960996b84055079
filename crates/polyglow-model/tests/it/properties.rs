//! Properties that hold for any weights: causality, padding, cached search, batches, permutations.

use burn::tensor::{Tensor, s};
use polyglow_model::encoder::Encoder;
use polyglow_model::init::ParamInit;
use polyglow_model::mask::padding_mask;
use polyglow_model::{
    Generate, Inspect, Pair, Position, Transformer, TransformerShape, cross_entropy,
};

use crate::{device, distance, ids, small_config, values, variants};

#[test]
fn the_future_does_not_change_the_past() {
    let device = device();
    for config in variants() {
        let model = Transformer::new(&config, 3, &device);
        let src = ids([[4, 5, 6, 2]], &device);
        let first = values(model.forward(src.clone(), ids([[1, 7, 8, 9]], &device)));
        let second = values(model.forward(src, ids([[1, 7, 10, 11]], &device)));
        let same = 2 * config.tgt_vocab_size;
        let changed = config.tgt_vocab_size;
        assert!(distance(&first[..same], &second[..same]) < 1e-6);
        assert!(distance(&first[same..][..changed], &second[same..][..changed]) > 1e-3);
    }
}

#[test]
fn only_a_model_without_positions_takes_no_notice_of_the_order_of_the_source() {
    let device = device();
    let without = TransformerShape {
        position: Position::None,
        ..small_config()
    };
    for config in variants().into_iter().chain([without]) {
        let model = Transformer::new(&config, 3, &device);
        let logits = |src| values(model.forward(src, ids([[1, 7, 8]], &device)));
        let difference = distance(
            &logits(ids([[4, 5, 6, 2]], &device)),
            &logits(ids([[6, 2, 4, 5]], &device)),
        );
        assert!(
            (difference < 2e-6) == (config.position == Position::None),
            "{config:?}: {difference}"
        );
    }
}

#[test]
fn padding_changes_neither_logits_nor_loss() {
    let device = device();
    for config in variants() {
        let model = Transformer::new(&config, 3, &device);
        let short = model.forward(ids([[4, 5, 2]], &device), ids([[1, 7, 8]], &device));
        let long = model.forward(
            ids([[4, 5, 2, 0, 0]], &device),
            ids([[1, 7, 8, 0]], &device),
        );
        let real = long.clone().slice(s![0..3]);
        assert!(distance(&values(short.clone()), &values(real)) < 2e-6);

        let (short_targets, long_targets) =
            (ids([[7, 8, 2]], &device), ids([[7, 8, 2, 0]], &device));
        let short_targets = short_targets.flatten::<1>(0, 1);
        let long_targets = long_targets.flatten::<1>(0, 1);
        let short = cross_entropy(short, short_targets, 0.1, 0);
        let long = cross_entropy(long, long_targets, 0.1, 0);
        assert!(distance(&values(short.loss_sum), &values(long.loss_sum)) < 1e-5);
        assert!(distance(&values(short.nll_sum), &values(long.nll_sum)) < 1e-5);
    }
}

#[test]
fn advancing_one_by_one_equals_teacher_forcing() {
    let device = device();
    for config in variants() {
        let model = Transformer::new(&config, 5, &device);
        let src = ids([[4, 5, 6, 2], [7, 2, 0, 0]], &device);
        let tgt = ids([[1, 7, 8, 9, 3], [1, 10, 11, 12, 4]], &device);
        let all: Tensor<3> = model.forward(src.clone(), tgt.clone()).reshape([2, 5, -1]);
        let mut cache = model.start(src.into());
        for position in 0..5 {
            let step = model.advance(tgt.clone().narrow(1, position, 1), &mut cache);
            let expected = all.clone().narrow(1, position, 1).squeeze_dim::<2>(1);
            assert!(
                distance(&values(step), &values(expected)) < 5e-6,
                "position {position}"
            );
        }
    }
}

#[test]
fn selected_cache_rows_continue_unchanged() {
    let device = device();
    let model = Transformer::new(&small_config(), 5, &device);
    let src = ids([[4, 5, 6, 2], [7, 2, 0, 0]], &device);
    let mut cache = model.start(src.clone().into());
    model.advance(ids([[1], [1]], &device), &mut cache);
    let mut swapped = cache.clone();
    swapped.select(&[1, 0, 1]);
    let expected = values(model.advance(ids([[8], [9]], &device), &mut cache));
    let actual = values(model.advance(ids([[9], [8], [9]], &device), &mut swapped));
    let width = expected.len() / 2;
    assert!(distance(&actual[..width], &expected[width..]) < 1e-6);
    assert!(distance(&actual[width..2 * width], &expected[..width]) < 1e-6);
    assert!(distance(&actual[2 * width..], &expected[width..]) < 1e-6);

    // Two rows a sentence, as a beam has them; then the second sentence alone.
    cache.select(&[0, 0, 1, 1]);
    let mut alone = cache.clone();
    let both = values(model.advance(ids([[7], [8], [9], [8]], &device), &mut cache));
    alone.select(&[3, 2]);
    let second = values(model.advance(ids([[8], [9]], &device), &mut alone));
    assert!(distance(&second[..width], &both[3 * width..]) < 1e-6);
    assert!(distance(&second[width..], &both[2 * width..3 * width]) < 1e-6);
    let mut one = model.start(src.into());
    model.advance(ids([[1], [1]], &device), &mut one);
    model.advance(ids([[8], [9]], &device), &mut one);
    one.select(&[0]);
    let expected = values(model.advance(ids([[8]], &device), &mut one));
    assert!(distance(&both[width..2 * width], &expected) < 1e-6);
}

#[test]
fn a_row_in_a_batch_equals_a_batch_of_one() {
    let device = device();
    let model = Transformer::new(&small_config(), 9, &device);
    let alone = model.forward(ids([[7, 2]], &device), ids([[1, 10]], &device));
    let batch = model.forward(
        ids([[4, 5, 6, 2], [7, 2, 0, 0]], &device),
        ids([[1, 8, 9], [1, 10, 0]], &device),
    );
    assert!(distance(&values(alone), &values(batch.slice(s![3..5]))) < 2e-6);
}

#[test]
fn without_positions_the_encoder_is_permutation_equivariant() {
    let device = device();
    let config = small_config();
    let encoder = Encoder::new(
        &config,
        config.num_encoder_layers,
        &mut ParamInit::new(4, &device),
    );
    let mask = padding_mask(&ids([[5, 6, 7]], &device), 0);
    let input = Tensor::<3>::from_data(
        [[[0.1f32, 0.9, -0.3, 0.2, 0.5, -0.7, 0.4, 0.0]; 3]],
        &device,
    ) * Tensor::<3>::from_data([[[1.0f32], [-0.5], [2.0]]], &device);
    let swap = |x: Tensor<3>| {
        Tensor::cat(
            vec![x.clone().narrow(1, 2, 1), x.clone().narrow(1, 0, 2)],
            1,
        )
    };
    let output = encoder.forward(input.clone(), &mask, None, None);
    let swapped = encoder.forward(swap(input), &mask, None, None);
    assert!(distance(&values(swap(output)), &values(swapped)) < 1e-6);
}

#[test]
fn the_same_seed_gives_the_same_model_and_another_seed_another() {
    let device = device();
    let src = || ids([[4, 5, 2]], &device);
    let tgt = || ids([[1, 7, 8]], &device);
    let logits =
        |seed| values(Transformer::new(&small_config(), seed, &device).forward(src(), tgt()));
    assert!(logits(1) == logits(1), "bit for bit");
    assert!(distance(&logits(1), &logits(2)) > 1e-2);
}

#[test]
fn attention_weights_sum_to_one_and_are_zero_where_it_is_forbidden() {
    let device = device();
    for config in variants() {
        let model = Transformer::new(&config, 3, &device);
        let src = ids([[4, 5, 6, 2], [7, 2, 0, 0]], &device);
        let tgt = ids([[1, 7, 8], [1, 9, 3]], &device);
        let maps = model.attention(Pair {
            src: src.into(),
            tgt_in: tgt,
        });
        let kinds = [
            (&maps.encoder, config.num_encoder_layers, 4, 4),
            (&maps.decoder, config.num_decoder_layers, 3, 3),
            (&maps.cross, config.num_decoder_layers, 3, 4),
        ];
        for (layers, num_layers, query_len, key_len) in kinds {
            assert_eq!(layers.len(), num_layers);
            for weights in layers {
                assert_eq!(weights.dims(), [2, config.num_heads, query_len, key_len]);
                let sums = values(weights.clone().sum_dim(3));
                assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-5), "{sums:?}");
            }
        }
        for layer in maps.encoder.iter().chain(&maps.cross) {
            let padding = values(layer.clone().slice(s![1, .., .., 2..4]));
            assert!(padding.iter().all(|weight| *weight == 0.0), "{padding:?}");
        }
        for layer in &maps.decoder {
            let future = values(layer.clone().slice(s![.., .., 0, 1..3]));
            assert!(future.iter().all(|weight| *weight == 0.0), "{future:?}");
        }
    }
}

//! An architecture from outside of the crate: two traits are enough to train it and to search with
//! it.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Gradients, Int, Tensor};
use polyglow_model::dropout::{Dropout, keyed};
use polyglow_model::embedding::Embedding;
use polyglow_model::init::ParamInit;
use polyglow_model::recurrent::{Cell, Direction, Recurrent, State};
use polyglow_model::search::{Incremental, SearchConfig, Sentence, SpecialTokens, search};
use polyglow_model::{Generate, Pair, Predict, Prediction, Projection, Source, parameter};

use crate::{device, distance, ids, values};

/// A source as the mean of its words, which a recurrent layer sees at each target position.
#[derive(Module, Debug)]
struct BagOfWords {
    embedding: Embedding,
    layer: Recurrent,
    dropout: Dropout,
}

impl BagOfWords {
    fn new(device: &Device) -> Self {
        let init = &mut ParamInit::new(5, device);
        let embedding = Embedding::new(12, 8, init);
        Self {
            embedding,
            layer: Recurrent::new(Cell::Gru, 8, 8, init),
            dropout: Dropout::new(0.1),
        }
    }

    /// `[batch, 1, d_model]`.
    fn read(&self, src: Source) -> Tensor<3> {
        self.embedding.forward(src.into_ids()).mean_dim(1)
    }
}

impl Predict<Pair> for BagOfWords {
    fn predict(&self, Pair { src, tgt_in }: Pair) -> Prediction<'_> {
        let input = self
            .dropout
            .forward(self.embedding.forward(tgt_in) + self.read(src));
        let states = self.layer.run(input, None, None, Direction::Forward);
        Projection::Tied(&self.embedding).project(states.flatten(0, 1))
    }
}

impl Generate for BagOfWords {
    type Cache = (Tensor<3>, State);

    fn start(&self, src: Source) -> Self::Cache {
        let state = self.layer.initial_state(src.num_rows(), &src.device());
        (self.read(src), state)
    }

    fn advance(&self, ids: Tensor<2, Int>, (source, state): &mut Self::Cache) -> Tensor<2> {
        let input = self.embedding.forward(ids) + source.clone();
        *state = self
            .layer
            .step(self.layer.input.rows(input.squeeze_dim(1)), state);
        Projection::Tied(&self.embedding)
            .project(state.hidden())
            .logits()
    }

    fn select((source, state): &mut Self::Cache, rows: &[usize], device: &Device) {
        let rows = Tensor::<1, Int>::from_data(
            &rows.iter().map(|&row| row as i32).collect::<Vec<_>>()[..],
            device,
        );
        *state = state.select(&rows);
        *source = source.clone().select(0, rows);
    }
}

/// Gradient descent with a rate of 0.1.
struct Descent(Gradients);

impl ModuleMapper for Descent {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|value| {
            let Some(gradient) = value.grad(&self.0) else {
                return value;
            };
            Tensor::from_inner(value.inner() - gradient * 0.1).require_grad()
        })
    }
}

#[test]
fn it_is_trained_and_its_beam_search_finds_what_it_learned() {
    let device = device().autodiff();
    let src = ids([[4, 5, 2], [6, 3, 2]], &device);
    let tgt_in = ids([[1, 7, 8], [1, 9, 0]], &device);
    let pair = || Pair {
        src: src.clone().into(),
        tgt_in: tgt_in.clone(),
    };
    let targets = || ids([[7, 8, 2], [9, 2, 0]], &device).flatten::<1>(0, 1);
    let mut model = BagOfWords::new(&device);
    let mut losses = Vec::new();
    for step in 0..200 {
        let loss = keyed(step, || model.predict(pair()).loss(targets(), 0.0, 0));
        losses.push(values(loss.nll_sum)[0]);
        model = model.map(&mut Descent(loss.loss_sum.backward()));
    }
    assert!(
        losses[199] < 0.1 * losses[0],
        "{} to {}",
        losses[0],
        losses[199]
    );

    let model = model.valid();
    let mut next = Incremental::new([(&model, src.inner())], &[0, 1]);
    let sentences = [5, 5].map(|max_len| Sentence {
        max_len,
        ..Sentence::default()
    });
    let hypotheses = search(
        &mut next,
        &sentences,
        &SearchConfig::default(),
        SpecialTokens { bos: 1, eos: 2 },
    );
    assert_eq!(
        hypotheses
            .iter()
            .map(|best| &best[0].ids[..])
            .collect::<Vec<_>>(),
        [&[7, 8][..], &[9]]
    );
}

#[test]
fn one_position_at_a_time_gives_what_all_at_once_give() {
    let device = device();
    let model = BagOfWords::new(&device);
    let src = ids([[4, 5, 2], [6, 3, 2]], &device);
    let tgt_in = ids([[1, 7, 8], [1, 9, 3]], &device);
    let all: Tensor<3> = model
        .predict(Pair {
            src: src.clone().into(),
            tgt_in: tgt_in.clone(),
        })
        .logits()
        .reshape([2, 3, 12]);
    let mut cache = model.start(src.into());
    for position in 0..3 {
        let step = model.advance(tgt_in.clone().narrow(1, position, 1), &mut cache);
        let expected: Tensor<2> = all.clone().narrow(1, position, 1).squeeze_dim(1);
        assert!(
            distance(&values(step), &values(expected)) < 1e-5,
            "position {position}"
        );
    }
}

#[test]
fn its_parameters_have_the_names_of_its_fields() {
    let names: Vec<String> = parameter::read(&BagOfWords::new(&device()))
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names[..3],
        ["embedding.weight", "layer.input.weight", "layer.input.bias"]
    );
}

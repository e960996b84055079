//! The attention weights of models that read images, on patches.

use polyglow_data::padded::Padded;
use polyglow_model::{CaptionerShape, Image, Inspect, Pair, PatchShape, Pooling, VitShape};

use super::{counts, head_weights, join, texts};
use crate::device::{upload, upload_rows};
use crate::error::{Result, TrainError};
use crate::runner::Runner;
use crate::tasks::images::upload_images;

/// Weights of all layers and heads, `[layer][head]`; each head is a matrix row by row, whose rows
/// are queries and whose columns are patches.
pub type HeadWeights = Vec<Vec<Vec<f32>>>;

/// The weights with which a Vision Transformer attends to the patches of an image.
pub struct ImageWeights {
    /// The image and its patches.
    pub patches: PatchShape,
    /// One row of `[patches]` a head, 0 to 1.
    pub weights: HeadWeights,
}

/// The weights from the words of a caption to the patches of its image.
pub struct CaptionWeights {
    /// The image and its patches.
    pub patches: PatchShape,
    /// The shown tokens of the caption and its EOS token.
    pub tokens: Vec<String>,
    /// A row for each of `tokens`: the weights with which it is predicted.
    pub weights: HeadWeights,
}

/// Runs the first model of a runner over an image, and returns how much each patch is attended to by
/// what the label is read from.
///
/// That is the class vector if the model has one, and otherwise the mean of all patches, so the
/// weights are those of one query or a mean over all.
///
/// # Shapes
/// - `pixels`: `[height, width, channels]` row by row, as the model reads them
///
/// # Errors
/// The model is no Vision Transformer.
pub fn image_weights(runner: &Runner, pixels: &[u8]) -> Result<ImageWeights> {
    let model = &runner.members[0].model;
    let Some(shape) = model.shape().downcast_ref::<VitShape>() else {
        return Err(TrainError::new("the model does not read images"));
    };
    let has_class = shape.pooling == Pooling::Class;
    let device = &runner.device;
    let values = pixels.iter().map(|&byte| i32::from(byte)).collect();
    let image = Image {
        pixels: upload(values, pixels.len(), device),
    };
    let mut weights = Vec::new();
    for layer in Inspect::attention(model, image.into()).encoder {
        let [_, _, _, num_keys] = layer.dims();
        let heads = head_weights(&layer.into_data());
        let pooled = heads
            .iter()
            .map(|head| pooled_weights(head, num_keys, has_class));
        weights.push(pooled.collect());
    }
    Ok(ImageWeights {
        patches: shape.patches,
        weights,
    })
}

/// Runs the first model of a runner over an image and a caption of it, with teacher forcing. The
/// caption is cut at the model's longest length.
///
/// # Shapes
/// - `pixels`: `[height, width, channels]` row by row, as the model reads them; output:
///   `[tokens, num_patches]` a head
///
/// # Errors
/// The model is no captioner; the caption cannot be encoded.
pub fn caption_weights(runner: &Runner, pixels: &[u8], caption: &str) -> Result<CaptionWeights> {
    let model = &runner.members[0].model;
    let Some(shape) = model.shape().downcast_ref::<CaptionerShape>() else {
        return Err(TrainError::new("the model does not describe images"));
    };
    let special = runner.tgt.special();
    let mut tgt = runner.tgt.encode(caption)?;
    tgt.truncate(runner.longest);
    let predicted = [&tgt[..], &[special.eos]].concat();
    let shown = runner.tgt.shown_together(&predicted);

    let tgt_in = Padded::begun(&[tgt], special.bos, special.pad, 1);
    let inputs = Pair {
        src: upload_images(pixels, 1, &runner.device).into(),
        tgt_in: upload_rows(&tgt_in, &runner.device),
    };
    let queries = counts(&shown);
    let patches = vec![1; shape.patches.num_patches()];
    let mut weights = Vec::new();
    for layer in Inspect::attention(model, inputs.into()).cross {
        let heads = head_weights(&layer.into_data());
        let joined = heads.iter().map(|head| join(head, &queries, &patches));
        weights.push(joined.collect());
    }
    Ok(CaptionWeights {
        patches: shape.patches,
        tokens: texts(&shown),
        weights,
    })
}

/// The weights of a head on the patches: those of the class vector, which is the first query and
/// the first key, or the mean over all queries.
fn pooled_weights(head: &[f32], num_keys: usize, has_class: bool) -> Vec<f32> {
    let rows = if has_class { &head[..num_keys] } else { head };
    let num_rows = rows.len() / num_keys;
    let mut weights = Vec::new();
    for key in usize::from(has_class)..num_keys {
        let sum: f32 = rows.chunks(num_keys).map(|row| row[key]).sum();
        weights.push(sum / num_rows as f32);
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_read_from_the_class_vector_or_from_all_patches() {
        // Queries and keys are the class vector and two patches.
        let head = [0.25, 0.25, 0.5, 1.0, 0.0, 0.0, 0.0, 0.5, 0.5];
        assert_eq!(pooled_weights(&head, 3, true), [0.25, 0.5]);
        // Without a class vector all are patches.
        assert_eq!(pooled_weights(&head[..4], 2, false), [0.375, 0.625]);
    }
}

//! Captions: the target, given an image; and where the model looks.

use std::sync::Arc;

use burn::tensor::{Device, Transaction};
use polyglow_data::batch::CaptionBatch;
use polyglow_data::corpus::read_image;
use polyglow_data::pair::Pair;
use polyglow_data::sources::CaptionSource;
use polyglow_data::toy::shapes::captioned::{CaptionedPicture, CaptionedShapes};
use polyglow_model::{
    ImageShape, Inspect, Model, ModelShape, Pair as Inputs, PatchShape, Predict, Targets,
};
use polyglow_predict::device::{upload_rows, upload_targets};
use polyglow_predict::error::{Context, Result, TrainError, bail, ensure};
use polyglow_predict::runner::Runner;
use polyglow_predict::tasks::images::image;
use serde::Serialize;

use super::{AnyTask, BatchSize, ID_BYTES, Loss, Setting, Task, TrainingData, Validation};
use crate::workload::BatchShape;

/// Learning to describe images.
struct Captions {
    source: Arc<CaptionSource>,
    setting: Setting,
    /// Patches of an image: the positions that it takes up, whatever its bytes.
    num_patches: usize,
    pad_id: u32,
}

impl Task for Captions {
    type Model = Model;
    type Source = CaptionSource;
    type Inputs = (Inputs, Targets);

    fn source(&self) -> &Arc<CaptionSource> {
        &self.source
    }

    fn name(&self) -> Option<String> {
        None
    }

    fn size(&self, batch: &CaptionBatch) -> BatchSize {
        let CaptionBatch {
            pixels,
            tgt_in,
            tgt_out,
        } = batch;
        let rows = tgt_out.num_rows();
        let targets = tgt_out.num_real();
        BatchSize {
            shape: BatchShape {
                rows,
                src_len: self.num_patches,
                tgt_len: tgt_out.len,
            },
            real_positions: self.num_patches * rows + targets,
            targets,
            bytes: ID_BYTES * (pixels.len() + tgt_in.ids.len() + tgt_out.ids.len()),
        }
    }

    fn upload(&self, batch: &CaptionBatch, device: &Device) -> (Inputs, Targets) {
        let inputs = Inputs {
            src: image(&batch.pixels, batch.tgt_in.num_rows(), device).into(),
            tgt_in: upload_rows(&batch.tgt_in, device),
        };
        let targets = upload_targets(&batch.tgt_out.ids, self.pad_id, device);
        (inputs, targets)
    }

    fn loss(&self, model: &Model, (inputs, targets): (Inputs, Targets)) -> Loss {
        let smoothing = self.setting.plan.config.train.label_smoothing;
        let prediction = model.predict(inputs);
        prediction.loss(targets, smoothing, self.pad_id).into()
    }

    fn uniform_loss(&self) -> Option<f64> {
        Some(self.setting.uniform_loss())
    }

    fn validate(&self, model: Model) -> Result<Option<Validation>> {
        self.setting.validate(model)
    }
}

/// Makes the task from what has been prepared.
///
/// # Errors
/// The data does not suit it.
pub(super) fn training(setting: Setting, data: &TrainingData) -> Result<AnyTask<Model>> {
    let TrainingData::Captions { cache, images } = data else {
        bail!("captions are learned from images with captions");
    };
    let positions = setting.plan.task.source_positions();
    let num_patches = positions.context("a model of captions reads images in patches")?;
    let source = CaptionSource::new(
        Arc::clone(cache),
        Arc::clone(images),
        setting.plan.batching(),
        num_patches,
    )?;
    let pad_id = setting.tokenizers.tgt.special().pad;
    Ok(AnyTask::new(Captions {
        source: Arc::new(source),
        setting,
        num_patches,
        pad_id,
    }))
}

/// How often the words of captions look at what they are about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pointing {
    /// For each decoder layer, from the lowest: share of words whose most looked-at patch touches a
    /// shape that the word is about, heads averaged, 0 to 1.
    pub layers: Vec<f64>,
    /// The same share for a patch drawn at random.
    pub chance: f64,
    /// Words about shapes.
    pub words: usize,
}

/// A caption in ids, the pixels of its image, and for each token the patches that it may point at;
/// none for a token about no shape.
struct Gaze {
    pixels: Vec<u8>,
    ids: Vec<u32>,
    wanted: Vec<Option<Vec<bool>>>,
}

/// Where the first model of an ensemble looks while it reads the captions of generated pictures,
/// whose shapes are known. A token's attention is that with which it is predicted.
///
/// # Errors
/// The model does not describe images, or has no attention to them; a picture is of no generated
/// corpus.
pub fn pointing(runner: &Runner, pairs: &[Pair]) -> Result<Pointing> {
    let model = &runner.members[0].model;
    let (ModelShape::Captioner(shape), Some(images)) = (model.shape(), runner.task.images()) else {
        return Err(TrainError::new("the model does not describe images"));
    };
    let gaze = |Pair { src, tgt }: &Pair| {
        let unknown = || {
            TrainError::new(format!(
                "where the shapes on `{src}` are is not known: only generated pictures tell"
            ))
        };
        let picture = CaptionedShapes::named(src).ok_or_else(unknown)?;
        let (mut ids, mut words) = runner.tgt.encode_words(tgt)?;
        ids.truncate(runner.longest);
        words.truncate(ids.len());
        let caption = picture
            .captions
            .iter()
            .find(|caption| caption.text == *tgt)
            .ok_or_else(unknown)?;
        let touched: Vec<Vec<bool>> = (0..picture.groups.len())
            .map(|group| touched(&picture, group, shape.patches))
            .collect();
        let wanted = words
            .iter()
            .map(|&word| caption.groups[word].map(|group| touched[group].clone()))
            .collect();
        Ok(Gaze {
            pixels: read_image(src.as_ref(), images)?,
            ids,
            wanted,
        })
    };
    let gazes: Vec<Gaze> = pairs.iter().map(gaze).collect::<Result<_>>()?;
    let num_patches = shape.patches.num_patches();
    let special = runner.tgt.special();
    let width = |gaze: &Gaze| num_patches.max(gaze.ids.len() + 1);
    // For each caption and layer, which of its words point where they should.
    let hits: Vec<Vec<Vec<bool>>> = runner.shortest_first(&gazes, width, |rows| {
        let pixels: Vec<&[u8]> = rows.iter().map(|row| &*row.pixels).collect();
        let captions: Vec<&[u32]> = rows.iter().map(|row| &*row.ids).collect();
        let batch = CaptionBatch::new(pixels.concat(), &captions, special, runner.pad_multiple);
        let inputs = Inputs {
            src: image(&batch.pixels, rows.len(), &runner.device).into(),
            tgt_in: upload_rows(&batch.tgt_in, &runner.device),
        };
        let layers = Inspect::cross_attention(model, inputs.into());
        let mut found = vec![Vec::new(); rows.len()];
        for layer in layers
            .into_iter()
            .fold(Transaction::default(), Transaction::register)
            .execute()
        {
            let weights: Vec<f32> = layer.iter().collect();
            let weights = weights.chunks(batch.tgt_in.len * num_patches);
            for ((row, weights), found) in rows.iter().zip(weights).zip(&mut found) {
                found.push(row.hits(weights, num_patches));
            }
        }
        Ok(found)
    })?;
    let num_layers = hits.first().map_or(0, Vec::len);
    ensure!(num_layers > 0, "the model has no attention to the image");
    let wanted = || gazes.iter().flat_map(|gaze| gaze.wanted.iter().flatten());
    let words = wanted().count();
    ensure!(words > 0, "no caption has a word about a shape");
    let of_layer = |layer: usize| {
        let right = hits
            .iter()
            .flat_map(|layers| &layers[layer])
            .filter(|hit| **hit)
            .count();
        right as f64 / words as f64
    };
    let touched = wanted().flatten().filter(|touched| **touched).count();
    Ok(Pointing {
        layers: (0..num_layers).map(of_layer).collect(),
        chance: touched as f64 / (words * num_patches) as f64,
        words,
    })
}

impl Gaze {
    /// Whether each token about a shape looks at it.
    fn hits(&self, weights: &[f32], num_patches: usize) -> Vec<bool> {
        let looks = |(wanted, weights): (&Option<Vec<bool>>, &[f32])| {
            // The first of equals, so that equal weights give equal answers.
            let most = (0..num_patches)
                .rev()
                .max_by(|&left, &right| weights[left].total_cmp(&weights[right]))?;
            wanted.as_ref().map(|wanted| wanted[most])
        };
        self.wanted
            .iter()
            .zip(weights.chunks(num_patches))
            .filter_map(looks)
            .collect()
    }
}

/// Which patches touch a shape of a group, as circles have them.
fn touched(picture: &CaptionedPicture, group: usize, patches: PatchShape) -> Vec<bool> {
    let PatchShape {
        image: ImageShape { height, width, .. },
        patch_size,
    } = patches;
    let ([_, columns], side) = (patches.grid(), CaptionedPicture::SIDE as f64);
    // The pixels of the picture that a patch covers, which may have been read in another size.
    let scale = [height, width].map(|pixels| patch_size as f64 * side / pixels as f64);
    let touches = |patch: usize| {
        let low = [
            (patch / columns) as f64 * scale[0],
            (patch % columns) as f64 * scale[1],
        ];
        picture.groups[group]
            .places
            .iter()
            .any(|[row, column, radius]| {
                let apart = [(0, row), (1, column)]
                    .map(|(axis, place)| place - place.clamp(low[axis], low[axis] + scale[axis]));
                apart.iter().map(|apart| apart * apart).sum::<f64>() <= radius * radius
            })
    };
    (0..patches.num_patches()).map(touches).collect()
}

#[cfg(test)]
mod tests {
    use polyglow_data::toy::shapes::captioned::Group;
    use polyglow_data::toy::shapes::{ShapeColor, ShapeKind};

    use super::*;

    #[test]
    fn a_patch_touches_what_reaches_into_it() {
        let group = Group {
            kind: ShapeKind::Circle,
            color: ShapeColor::Red,
            places: vec![[8.0, 15.0, 2.0]],
        };
        let picture = CaptionedPicture {
            pixels: Vec::new(),
            groups: vec![group],
            captions: Vec::new(),
        };
        let patches = |side: usize, patch_size: usize| PatchShape {
            image: ImageShape {
                height: side,
                width: side,
                channels: 3,
            },
            patch_size,
        };
        // Four patches of 16 pixels: the shape reaches from the upper left one into the upper right
        // one.
        assert_eq!(
            touched(&picture, 0, patches(32, 16)),
            [true, true, false, false]
        );
        assert_eq!(
            touched(&picture, 0, patches(64, 32)),
            [true, true, false, false]
        );
        assert_eq!(
            touched(&picture, 0, patches(32, 8))
                .iter()
                .filter(|touched| **touched)
                .count(),
            4
        );
    }

    #[test]
    fn a_word_hits_where_its_largest_weight_is() {
        let wanted = vec![Some(vec![true, false]), None, Some(vec![true, false])];
        let gaze = Gaze {
            pixels: Vec::new(),
            ids: Vec::new(),
            wanted,
        };
        assert_eq!(
            gaze.hits(&[0.6, 0.4, 0.5, 0.5, 0.1, 0.9, 1.0, 0.0], 2),
            [true, false]
        );
    }
}

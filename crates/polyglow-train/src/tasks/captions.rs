//! Captions: the target, given an image; and where the model looks.

use std::sync::Arc;

use burn::tensor::{Device, Transaction};
use polyglow_data::batch::CaptionBatch;
use polyglow_data::corpus::read_image;
use polyglow_data::pair::Pair;
use polyglow_data::sources::CaptionSource;
use polyglow_data::toy::shapes::captioned::{CaptionedPicture, CaptionedShapes};
use polyglow_model::{
    CaptionerShape, ImageShape, Inspect, Model, Pair as Inputs, PatchShape, Predict, Targets,
};
use polyglow_predict::device::{upload_rows, upload_targets};
use polyglow_predict::error::{Context, Result, TrainError, bail, ensure, failed};
use polyglow_predict::runner::Runner;
use polyglow_predict::tasks::captions;
use polyglow_predict::tasks::images::upload_images;
use serde::Serialize;

use super::{AnyTask, BatchSize, ID_BYTES, Loss, Setting, Task, TaskRow, TrainingData, Validation};
use crate::config::Config;
use crate::workload::BatchShape;

/// The row of this task.
pub(super) const TRAINING: TaskRow = TaskRow {
    check,
    ..TaskRow::built_in(&captions::FACTS, training)
};

/// The task of describing images.
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
            src: upload_images(&batch.pixels, batch.tgt_in.num_rows(), device).into(),
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

fn check(config: &Config) -> Result<()> {
    let ratio = config.search.min_len_ratio;
    ensure!(
        ratio == 0.0,
        "`search.min_len_ratio = {ratio}`: images have no length in tokens; leave it out"
    );
    Ok(())
}

/// Makes the task from the setting of a training and its prepared data.
///
/// # Errors
/// The data is of another kind than the task reads, or the config does not suit it.
fn training(setting: Setting, data: &TrainingData) -> Result<AnyTask<Model>> {
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

/// The shares of words of captions that look at the shapes that they are about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pointing {
    /// For each decoder layer, from the lowest, the share of words whose most looked-at patch touches
    /// a shape that the word is about, heads averaged, 0 to 1.
    pub layers: Vec<f64>,
    /// The share that a patch drawn at random would have.
    pub chance: f64,
    /// Number of words about shapes.
    pub words: usize,
}

/// A caption in ids, with the pixels of its image and the patches that its words are about.
struct Gaze {
    pixels: Vec<u8>,
    ids: Vec<u32>,
    /// For each token whether each patch touches a shape that it is about; `None` for a token about
    /// no shape.
    targets: Vec<Option<Vec<bool>>>,
}

/// Measures where the first model of an ensemble looks while it reads the captions of generated
/// pictures, whose shapes are known. A token's attention is that with which it is predicted.
///
/// # Errors
/// The model does not describe images, or has no attention to them; a picture is of no generated
/// corpus.
pub fn pointing(runner: &Runner, pairs: &[Pair]) -> Result<Pointing> {
    let shape = runner.members[0].model.shape();
    let Some(shape) = shape.downcast_ref::<CaptionerShape>() else {
        return Err(TrainError::new("the model does not describe images"));
    };
    let mut gazes = Vec::with_capacity(pairs.len());
    for pair in pairs {
        gazes.push(Gaze::new(runner, pair, shape.patches)?);
    }
    let num_patches = shape.patches.num_patches();
    let hits = hits(runner, &gazes, num_patches)?;
    let num_layers = hits.first().map_or(0, Vec::len);
    ensure!(num_layers > 0, "the model has no attention to the image");

    let mut words = 0;
    let mut touched = 0;
    for targets in gazes.iter().flat_map(|gaze| gaze.targets.iter().flatten()) {
        words += 1;
        touched += targets.iter().filter(|target| **target).count();
    }
    ensure!(words > 0, "no caption has a word about a shape");
    let mut layers = Vec::with_capacity(num_layers);
    for layer in 0..num_layers {
        let of_layer = hits.iter().flat_map(|layers| &layers[layer]);
        let num_hits = of_layer.filter(|hit| **hit).count();
        layers.push(num_hits as f64 / words as f64);
    }
    Ok(Pointing {
        layers,
        chance: touched as f64 / (words * num_patches) as f64,
        words,
    })
}

/// Returns for each caption and layer which of its words about shapes point at these.
fn hits(runner: &Runner, gazes: &[Gaze], num_patches: usize) -> Result<Vec<Vec<Vec<bool>>>> {
    let model = &runner.members[0].model;
    let special = runner.tgt.special();
    let width = |gaze: &Gaze| num_patches.max(gaze.ids.len() + 1);
    runner.shortest_first(gazes, width, |rows| {
        let pixels: Vec<&[u8]> = rows.iter().map(|row| &*row.pixels).collect();
        let captions: Vec<&[u32]> = rows.iter().map(|row| &*row.ids).collect();
        let batch = CaptionBatch::new(pixels.concat(), &captions, special, runner.pad_multiple);
        let inputs = Inputs {
            src: upload_images(&batch.pixels, rows.len(), &runner.device).into(),
            tgt_in: upload_rows(&batch.tgt_in, &runner.device),
        };
        let layers = Inspect::cross_attention(model, inputs.into());
        // All layers in one transaction, since each read waits for the device.
        let layers = layers
            .into_iter()
            .fold(Transaction::default(), Transaction::register)
            .execute();
        let mut hits = vec![Vec::with_capacity(layers.len()); rows.len()];
        for layer in layers {
            let weights: Vec<f32> = layer.iter().collect();
            let weights = weights.chunks(batch.tgt_in.len * num_patches);
            for ((row, weights), hits) in rows.iter().zip(weights).zip(&mut hits) {
                hits.push(row.hits(weights, num_patches));
            }
        }
        Ok(hits)
    })
}

impl Gaze {
    /// Reads the picture of a pair, and looks up the shapes that its caption is about.
    ///
    /// # Errors
    /// The model reads no images; the picture is of no generated corpus, or has no such caption.
    fn new(runner: &Runner, pair: &Pair, patches: PatchShape) -> Result<Self> {
        let images = runner.task.images();
        let images = images.context("the model does not describe images")?;
        let picture = CaptionedShapes::named(&pair.src).ok_or_else(|| unknown_shapes(pair))?;
        let caption = picture
            .captions
            .iter()
            .find(|caption| caption.text == pair.tgt)
            .ok_or_else(|| unknown_shapes(pair))?;
        let (mut ids, mut words) = runner.tgt.encode_words(&pair.tgt)?;
        ids.truncate(runner.longest);
        words.truncate(ids.len());
        let touched: Vec<Vec<bool>> = (0..picture.groups.len())
            .map(|group| touched(&picture, group, patches))
            .collect();
        let mut targets = Vec::with_capacity(words.len());
        for word in words {
            targets.push(caption.groups[word].map(|group| touched[group].clone()));
        }
        Ok(Self {
            pixels: read_image(pair.src.as_ref(), images)?,
            ids,
            targets,
        })
    }

    /// Returns whether each token about a shape looks at it most; `weights` has `num_patches` values
    /// for each token.
    fn hits(&self, weights: &[f32], num_patches: usize) -> Vec<bool> {
        let mut hits = Vec::new();
        for (targets, weights) in self.targets.iter().zip(weights.chunks(num_patches)) {
            if let Some(targets) = targets
                && let Some(patch) = most_looked_at(weights)
            {
                hits.push(targets[patch]);
            }
        }
        hits
    }
}

/// Returns the index of the largest weight, of equal ones the first, so that equal weights give
/// equal answers.
fn most_looked_at(weights: &[f32]) -> Option<usize> {
    let patches = (0..weights.len()).rev();
    patches.max_by(|&left, &right| weights[left].total_cmp(&weights[right]))
}

fn unknown_shapes(pair: &Pair) -> TrainError {
    failed!(
        "where the shapes on `{}` are is not known: only generated pictures tell",
        pair.src
    )
}

/// Returns for each patch whether it touches a shape of a group; shapes count as circles.
fn touched(picture: &CaptionedPicture, group: usize, patches: PatchShape) -> Vec<bool> {
    let PatchShape {
        image: ImageShape { height, width, .. },
        patch_size,
    } = patches;
    let [_, columns] = patches.grid();
    // The pixels of the picture that a patch covers, which may have been read in another size.
    let side = CaptionedPicture::SIDE as f64;
    let scale = [height, width].map(|pixels| patch_size as f64 * side / pixels as f64);
    let mut touched = Vec::with_capacity(patches.num_patches());
    for patch in 0..patches.num_patches() {
        let corner = [
            (patch / columns) as f64 * scale[0],
            (patch % columns) as f64 * scale[1],
        ];
        let mut circles = picture.groups[group].places.iter();
        touched.push(circles.any(|circle| is_touched(*circle, corner, scale)));
    }
    touched
}

/// Returns whether a circle, `[row, column, radius]`, reaches into a rectangle: whether the point of
/// the rectangle that is nearest to the center is within the radius.
fn is_touched([row, column, radius]: [f64; 3], corner: [f64; 2], size: [f64; 2]) -> bool {
    let rows_apart = row - row.clamp(corner[0], corner[0] + size[0]);
    let columns_apart = column - column.clamp(corner[1], corner[1] + size[1]);
    rows_apart * rows_apart + columns_apart * columns_apart <= radius * radius
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
        let targets = vec![Some(vec![true, false]), None, Some(vec![true, false])];
        let gaze = Gaze {
            pixels: Vec::new(),
            ids: Vec::new(),
            targets,
        };
        assert_eq!(
            gaze.hits(&[0.6, 0.4, 0.5, 0.5, 0.1, 0.9, 1.0, 0.0], 2),
            [true, false]
        );
    }
}

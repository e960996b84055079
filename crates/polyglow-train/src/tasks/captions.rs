//! Captions: learned and scored as [translations](super::translation), whose source is an image;
//! here is where the model looks.

use std::sync::Arc;

use burn::tensor::Transaction;
use polyglow_data::batch::PairBatch;
use polyglow_data::corpus::read_image;
use polyglow_data::example::Example;
use polyglow_data::pair::Pair;
use polyglow_data::sources::CaptionSource;
use polyglow_data::toy::shapes::captioned::{CaptionedPicture, CaptionedShapes};
use polyglow_model::{ImageShape, Inspect, Model, ModelShape, Pair as Inputs, PatchShape};
use polyglow_predict::device::upload_rows;
use polyglow_predict::error::{Context, Result, TrainError, bail, ensure};
use polyglow_predict::runner::Runner;
use serde::Serialize;

use super::translation::Translation;
use super::{AnyTask, Setting, TrainingData};

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
    Ok(AnyTask::new(Translation::<Model, _>::from_source(
        setting, source,
    )))
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

/// A caption in ids, its image, and for each token the patches that it may point at; none for a
/// token about no shape.
struct Gaze {
    example: Example,
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
        let pixels = read_image(src.as_ref(), images)?;
        Ok(Gaze {
            example: Example {
                src: pixels.into_iter().map(u32::from).collect(),
                tgt: ids,
            },
            wanted,
        })
    };
    let gazes: Vec<Gaze> = pairs.iter().map(gaze).collect::<Result<_>>()?;
    let num_patches = shape.patches.num_patches();
    let special = runner.tgt.special();
    let width = |gaze: &Gaze| num_patches.max(gaze.example.tgt.len() + 1);
    // For each caption and layer, which of its words point where they should.
    let hits: Vec<Vec<Vec<bool>>> = runner.shortest_first(&gazes, width, |rows| {
        let examples: Vec<Example> = rows.iter().map(|row| row.example.clone()).collect();
        let batch = PairBatch::new(&examples, special, special, runner.pad_multiple);
        let (src, tgt_in) = (
            upload_rows(&batch.src, &runner.device),
            upload_rows(&batch.tgt_in, &runner.device),
        );
        let layers = Inspect::cross_attention(model, Inputs { src, tgt_in }.into());
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
            example: Example::default(),
            wanted,
        };
        assert_eq!(
            gaze.hits(&[0.6, 0.4, 0.5, 0.5, 0.1, 0.9, 1.0, 0.0], 2),
            [true, false]
        );
    }
}

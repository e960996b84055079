//! Sources as models read them: texts become ids, names of images become pixels.

use polyglow_data::config::ImageConfig;
use polyglow_data::padded::Padded;
use polyglow_data::pair::{Pair, by_source};
use polyglow_data::pair_tags::prepend;
use polyglow_model::Source;

use crate::device::upload_rows;
use crate::error::{Result, TrainError};
use crate::runner::{Member, Runner};
use crate::tasks::TaskUse;
use crate::tasks::images::upload_images;

/// Images whose pixels are in memory together.
const IMAGES_AT_A_TIME: usize = 512;

/// Reads images by their names: the pixels of each, row by row, with the channels of a pixel side
/// by side, in the size that the config names.
pub type ImageReader = fn(&[&str], ImageConfig) -> Result<Vec<Vec<u8>>>;

/// A source in host memory.
#[derive(Clone, Debug)]
pub enum EncodedSource {
    /// The ids of a text, once for each member of the ensemble.
    Text(Vec<Vec<u32>>),
    /// An image.
    Image {
        /// `[height, width, channels]` row by row.
        pixels: Vec<u8>,
        /// The positions that it takes up in a batch.
        num_positions: usize,
    },
}

impl EncodedSource {
    /// Returns the number of tokens, the most of any member; `None` of an image, which has none, and
    /// of a text that no member has encoded.
    pub fn num_tokens(&self) -> Option<usize> {
        match self {
            Self::Text(ids) => ids.iter().map(Vec::len).max(),
            Self::Image { .. } => None,
        }
    }

    /// Returns the number of positions that it takes up in a batch, without the end mark of a text.
    pub fn num_positions(&self) -> usize {
        match *self {
            Self::Text(_) => self.num_tokens().unwrap_or(0),
            Self::Image { num_positions, .. } => num_positions,
        }
    }

    /// Cuts a text to at most `longest` tokens, and returns whether it had more. An image has one
    /// size and stays as it is.
    pub fn truncate(&mut self, longest: usize) -> bool {
        let is_longer = self.num_tokens().is_some_and(|tokens| tokens > longest);
        if let Self::Text(ids) = self {
            for ids in ids {
                ids.truncate(longest);
            }
        }
        is_longer
    }
}

/// The encoder of a task's sources.
#[derive(Clone, Copy, Debug)]
pub enum SourceEncoder {
    /// Texts, by the tokenizers of the members.
    Text,
    /// Images, by their names.
    Images {
        /// The form to which they are converted.
        config: ImageConfig,
        /// The positions that each takes up in a batch.
        num_positions: usize,
        /// Reads them; `None` where no files are opened, as in a browser.
        reader: Option<ImageReader>,
    },
}

impl SourceEncoder {
    /// Makes the encoder of a task's sources.
    pub fn new(task: &dyn TaskUse, reader: Option<ImageReader>) -> Self {
        match (task.images(), task.source_positions()) {
            (Some(config), Some(num_positions)) => Self::Images {
                config,
                num_positions,
                reader,
            },
            _ => Self::Text,
        }
    }

    /// Encodes texts, or the images of these names, for each member of an ensemble.
    ///
    /// # Errors
    /// A text cannot be encoded; there is no such image.
    pub fn encode<M>(&self, members: &[Member<M>], texts: &[&str]) -> Result<Vec<EncodedSource>> {
        let Self::Images {
            config,
            num_positions,
            reader,
        } = *self
        else {
            return encode_texts(members, texts);
        };
        let Some(read) = reader else {
            let names = texts.join("`, `");
            return Err(TrainError::new(format!(
                "this build opens no files, and so not the image `{names}`"
            )));
        };
        let images = read(texts, config)?.into_iter();
        let encoded = images.map(|pixels| EncodedSource::Image {
            pixels,
            num_positions,
        });
        Ok(encoded.collect())
    }

    /// Returns the number of sources, of `num_rows`, that are encoded at a time.
    pub fn portion(&self, num_rows: usize) -> usize {
        match self {
            Self::Text => num_rows.max(1),
            Self::Images { .. } => IMAGES_AT_A_TIME,
        }
    }

    /// Returns the sources of pairs, each with the indices of the pairs whose targets are the
    /// references of its output. Texts that are equal are sources of their own, but all captions of
    /// an image belong together.
    pub fn references<'p>(&self, pairs: &'p [Pair]) -> Vec<(&'p str, Vec<usize>)> {
        match self {
            Self::Text => {
                let pairs = pairs.iter().enumerate();
                pairs
                    .map(|(index, pair)| (&*pair.src, vec![index]))
                    .collect()
            }
            Self::Images { .. } => by_source(pairs),
        }
    }
}

fn encode_texts<M>(members: &[Member<M>], texts: &[&str]) -> Result<Vec<EncodedSource>> {
    let mut encoded = vec![Vec::with_capacity(members.len()); texts.len()];
    for member in members {
        for (text, ids) in encoded.iter_mut().zip(member.src.encode_batch(texts)?) {
            text.push(ids);
        }
    }
    Ok(encoded.into_iter().map(EncodedSource::Text).collect())
}

impl<M> Runner<M> {
    /// Encodes texts behind the runner's tags, or the images of these names. A text without tokens
    /// stays empty.
    ///
    /// # Errors
    /// As [`SourceEncoder::encode`].
    pub fn encode(&self, texts: &[&str]) -> Result<Vec<EncodedSource>> {
        let mut sources = self.sources.encode(&self.members, texts)?;
        if self.tags().src.is_empty() {
            return Ok(sources);
        }
        for (index, member) in self.members.iter().enumerate() {
            let tags = self.src_tags(member)?;
            for source in &mut sources {
                if let EncodedSource::Text(ids) = source {
                    prepend(&tags, &mut ids[index]);
                }
            }
        }
        Ok(sources)
    }

    /// Returns what `run` gives for all rows; of images a portion at a time, since their pixels
    /// take a lot of memory.
    ///
    /// # Errors
    /// The first error of `run`.
    pub fn in_portions<R, T>(
        &self,
        rows: &[R],
        mut run: impl FnMut(&[R]) -> Result<Vec<T>>,
    ) -> Result<Vec<T>> {
        let mut results = Vec::with_capacity(rows.len());
        for rows in rows.chunks(self.sources.portion(rows.len())) {
            results.extend(run(rows)?);
        }
        Ok(results)
    }

    /// Brings the sources of a batch to the device, as the member of this index reads them: texts
    /// with an end mark and padding behind, images as they are.
    pub fn upload_sources(&self, index: usize, sources: &[&EncodedSource]) -> Source {
        let mut texts: Vec<&[u32]> = Vec::with_capacity(sources.len());
        let mut images: Vec<&[u8]> = Vec::new();
        for source in sources {
            match source {
                EncodedSource::Text(ids) => texts.push(&ids[index]),
                EncodedSource::Image { pixels, .. } => images.push(pixels),
            }
        }
        if !images.is_empty() {
            return upload_images(&images.concat(), images.len(), &self.device).into();
        }
        let special = self.members[index].src.special();
        let rows = Padded::ended(&texts, special.eos, special.pad, self.pad_multiple);
        upload_rows(&rows, &self.device).into()
    }
}

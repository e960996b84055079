//! Word alignments that are learned from the text itself.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use super::part::{Alignments, Part};
use super::{Corpus, Pair};
use crate::align::{
    AlignOptions, AlignProgress, Aligner, Bitext, Marginals, SavedChains, Symmetrization,
};
use crate::alignment::Link;
use crate::error::DataError;

/// The least probability of a link that is learned from: a wrong one harms more than a missing one.
const THRESHOLD: f64 = 0.5;

impl Corpus {
    /// Whether alignments of some of its parts are learned from the text.
    pub(crate) fn learns_alignments(&self) -> bool {
        self.parts.iter().any(Part::learns_alignments)
    }

    /// Returns the corpus with alignments that are learned from the pairs of all its parts that are
    /// trained on, and the states of the learning in `dir`, from which it is continued if it is
    /// interrupted; the caller removes them in the end.
    ///
    /// # Errors
    /// As [`Corpus::pairs`]; [`DataError::Io`] if a state cannot be written.
    pub(crate) fn learn_alignments(
        &self,
        dir: &Path,
        on_progress: impl FnMut(AlignProgress),
    ) -> Result<(Self, SavedChains), DataError> {
        let (text, lens) = self.bitext()?;
        let aligner = Aligner::new(&text, AlignOptions::default());
        let saved = match SavedChains::open(dir, &aligner) {
            // Of another text, which was replaced by this one.
            Err(DataError::OtherAlignment { path }) => {
                std::fs::remove_dir_all(&path).map_err(DataError::io(&path))?;
                SavedChains::open(dir, &aligner)?
            }
            opened => opened?,
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let never = AtomicBool::new(false);
        let marginals = saved.align(&aligner, threads, &never, on_progress)?;
        let mut corpus = self.clone();
        if let Some(marginals) = marginals {
            corpus.take_links(&marginals, &lens);
        }
        Ok((corpus, saved))
    }

    /// Reads the pairs that are trained on, and counts them in each part.
    fn bitext(&self) -> Result<(Bitext, Vec<usize>), DataError> {
        let mut text = Bitext::default();
        let mut lens = Vec::new();
        let most = self.max_examples.map_or(usize::MAX, |most| most as usize);
        for part in &self.parts {
            let before = text.len();
            for pair in part.pairs()?.take(most - before) {
                let Pair { src, tgt } = pair?;
                text.push(&src, &tgt);
            }
            lens.push(text.len() - before);
        }
        Ok((text, lens))
    }

    /// Gives the parts whose alignments are learned their links.
    fn take_links(&mut self, marginals: &Marginals<'_>, lens: &[usize]) {
        let mut before = 0;
        for (part, len) in self.parts.iter_mut().zip(lens) {
            if part.learns_alignments() {
                let links = (before..before + len).map(|pair| probable_links(marginals, pair));
                part.alignments = Some(Alignments::Embedded(Arc::new(links.collect())));
            }
            before += len;
        }
    }
}

fn probable_links(marginals: &Marginals<'_>, pair: usize) -> Vec<Link> {
    let symmetrization = Symmetrization::Posterior {
        threshold: THRESHOLD,
    };
    let links = marginals.links(pair, symmetrization);
    links.into_iter().map(|link| link.link).collect()
}

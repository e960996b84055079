//! The state of a chain as bytes.

use std::io::{self, Write};

use super::{Chain, NULL};
use crate::align::{Aligner, ChainId};

impl<'a> Chain<'a> {
    /// The number of iterations that are done.
    pub(in crate::align) fn iteration(&self) -> usize {
        self.iteration
    }

    /// Writes the state of the chain: the number of iterations, the links, and the sums of
    /// probabilities if there are any. All else follows from them and from the text.
    ///
    /// # Errors
    /// Any error of writing to `out`.
    pub(in crate::align) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&(self.iteration as u64).to_le_bytes())?;
        for number in self.links.iter().chain(&self.marginals) {
            out.write_all(&number.to_le_bytes())?;
        }
        Ok(())
    }

    /// Restores a chain from the bytes that [`Self::write`] has written; `None` if they are not
    /// those of a chain of this text.
    pub(in crate::align) fn from_bytes(
        aligner: &'a Aligner<'_>,
        id: ChainId,
        bytes: &[u8],
    ) -> Option<Self> {
        let mut chain = Self::without_links(aligner, id);
        let (iteration, numbers) = bytes.split_first_chunk::<8>()?;
        chain.iteration = usize::try_from(u64::from_le_bytes(*iteration)).ok()?;
        if chain.iteration > chain.schedule.iterations() {
            return None;
        }
        let (numbers, odd) = numbers.as_chunks::<2>();
        let (links, marginals) = numbers.split_at_checked(chain.links.len())?;
        let has_marginals = chain.iteration > 0 && chain.schedule.unit(chain.iteration - 1) > 0;
        let num_marginals = if has_marginals {
            chain.text.cells.counters.len()
        } else {
            0
        };
        if !odd.is_empty() || marginals.len() != num_marginals {
            return None;
        }
        let number = |bytes: &[u8; 2]| u16::from_le_bytes(*bytes);
        chain.links = links.iter().map(number).collect();
        chain.marginals = marginals.iter().map(number).collect();
        if !chain.links_exist() {
            return None;
        }
        chain.count();
        Some(chain)
    }

    /// Whether all links are to conditions that exist.
    fn links_exist(&self) -> bool {
        self.text.linked(&self.links).all(|(conditions, links)| {
            let exists = |link: u16| link == NULL || usize::from(link) < conditions.len();
            links.iter().all(|&link| exists(link))
        })
    }
}

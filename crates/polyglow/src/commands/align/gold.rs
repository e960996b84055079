//! The links of people, and how well others agree with them.

use std::io::{self, Write};
use std::path::Path;

use anyhow::anyhow;
use polyglow_data::align::{AlignmentScore, Bitext};
use polyglow_data::alignment::{GoldLines, GoldLinks};
use polyglow_data::config::GOLD;
use polyglow_data::lines::Lines;
use polyglow_train::config::Config;

use crate::failure::{usage, with_hint};

/// Reads the gold links of the first pairs.
///
/// # Errors
/// They cannot be read, there are none, or they are of another text.
pub(super) fn read_gold(
    path: &Path,
    config: Option<&Config>,
    text: &Bitext,
) -> anyhow::Result<Vec<GoldLinks>> {
    let gold = if path == Path::new(GOLD) {
        embedded_gold(config, text.len())?
    } else {
        GoldLines(Lines::open(path)?).collect::<Result<_, _>>()?
    };
    let path = path.display();
    if gold.len() > text.len() {
        let lines = gold.len();
        let pairs = text.len();
        return Err(anyhow!(
            "`{path}` has {lines} lines, but the text has {pairs} pairs"
        ));
    }
    for (index, gold) in gold.iter().enumerate() {
        let [src_len, tgt_len] = text.num_words(index);
        let mut links = gold.sure.iter().chain(&gold.possible);
        let beyond = links.find(|link| link.0 >= src_len || link.1 >= tgt_len);
        if let Some((src, tgt)) = beyond {
            let line = index + 1;
            let error = anyhow!(
                "`{path}` line {line}: `{src}-{tgt}` is beyond the pair's {src_len} and {tgt_len} words"
            );
            return Err(with_hint(error, "words are counted from 0"));
        }
    }
    if gold.iter().all(|gold| gold.sure.is_empty()) {
        return Err(anyhow!("`{path}` has no sure links"));
    }
    Ok(gold)
}

/// The gold links of an embedded corpus.
///
/// # Errors
/// The config names none (exit code 2).
fn embedded_gold(config: Option<&Config>, pairs: usize) -> anyhow::Result<Vec<GoldLinks>> {
    let toy = config.and_then(|config| config.data.toy());
    let Some(mut aligned) = toy.and_then(|toy| toy.split("train")) else {
        let error = usage(anyhow!(
            "`--gold gold`: only an embedded corpus has gold links"
        ));
        return Err(with_hint(
            error,
            "give a file with the links of a pair on each line, `0-0 1-2`",
        ));
    };
    aligned.truncate(pairs);
    let links = aligned.into_iter().map(|pair| GoldLinks {
        sure: pair.alignment,
        possible: Vec::new(),
    });
    Ok(links.collect())
}

/// Prints how well the links agree with gold ones.
pub(super) fn print(score: &AlignmentScore, pairs: usize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "pairs      {pairs}")?;
    writeln!(out, "precision  {:.4}", score.precision)?;
    writeln!(out, "recall     {:.4}", score.recall)?;
    writeln!(out, "AER        {:.4}", score.error_rate)
}

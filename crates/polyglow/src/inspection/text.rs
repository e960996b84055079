//! The text of every split: sizes, unknown tokens, and what is odd about it, pair by pair and as a
//! whole.

mod reader;
mod report;

use std::collections::{HashMap, HashSet};

use polyglow_data::config::{Split, TargetKind};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::example::{
    Candidate, CorpusReport, Filter, Reason, SideReport, configured_filter,
};
use polyglow_data::id_cache::IdCache;
use polyglow_data::pair::Pair;
use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_train::Plan;

use super::sides::{self, Whole};
use super::warning::Warning;
use polyglow_data::clean::findings::{Check, Finding};
use reader::{Reader, Side};
pub(crate) use report::{SideStatistics, SplitReport};

/// Held-out pairs that are encoded together: enough to occupy all cores.
const PAIRS_PER_CHUNK: usize = 4096;

/// What is said of sentences of an embedded corpus that are held out and trained on.
const OF_EMBEDDED: &str =
    "the corpus is so, and scores on this set are in part of what was trained on";

/// What was found in all splits.
pub(super) struct TextReport {
    /// `train`, then `valid` if there is one, then the test sets.
    pub(super) splits: Vec<SplitReport>,
    /// What is odd about pairs; of an embedded corpus, which nobody can change, only what its
    /// scores are of.
    pub(super) findings: Vec<Finding>,
    /// What is odd about whole sides.
    pub(super) warnings: Vec<Warning>,
}

/// What all splits are read with.
struct Setting<'a> {
    plan: &'a Plan,
    tokenizers: &'a Tokenizers,
    /// The languages of both sides; empty where there are none.
    languages: [String; 2],
}

/// A validation or test set, in memory.
struct HeldOut {
    reader: Reader,
    report: CorpusReport,
    /// Every pair, with its file and line.
    pairs: Vec<(String, u64, Pair)>,
}

/// Reads the held-out sets, then streams the training text past them.
///
/// `cache` has the ids of `train`; `None` for images. Sentences are compared by 64-bit hashes:
/// among 10 million pairs the chance of a single false match is below one in 100 000. Memory holds
/// some twenty bytes for each training pair.
///
/// # Errors
/// A set cannot be read, is missing or empty.
pub(super) fn read_splits(
    plan: &Plan,
    train: &Corpus,
    cache: Option<&IdCache>,
    tokenizers: &Tokenizers,
) -> Result<TextReport, DataError> {
    let data = &plan.config.data;
    let languages = data.languages().map_or_else(
        |_| Default::default(),
        |(src, tgt)| [src.to_owned(), tgt.to_owned()],
    );
    let setting = Setting {
        plan,
        tokenizers,
        languages,
    };
    let valid = data.has_valid().then_some(("valid", Split::Valid));
    let tests = data
        .test_names()
        .into_iter()
        .map(|name| (name, Split::Test(name)));
    let splits: Vec<(&str, Split)> = valid.into_iter().chain(tests).collect();
    let Some(cache) = cache else {
        return report::read_images(plan, train, &splits);
    };

    let read =
        |(name, split)| setting.read_held_out(name, &Corpus::open(data, plan.content, split)?);
    let mut held_out: Vec<HeldOut> = splits.into_iter().map(read).collect::<Result<_, _>>()?;
    let watched: HashSet<u64> = held_out
        .iter()
        .flat_map(|set| set.pairs.iter().flat_map(|(.., pair)| hashes(pair)))
        .collect();
    let mut found = HashMap::new();
    let train = setting.read_train(train, cache, |file, line, pair| {
        for hash in hashes(pair).filter(|hash| watched.contains(hash)) {
            found
                .entry(hash)
                .or_insert_with(|| format!("{file}:{line}"));
        }
    })?;
    for set in &mut held_out {
        set.mark(&found);
    }

    let mut readers = vec![(train, cache.report())];
    readers.extend(
        held_out
            .iter_mut()
            .map(|set| (std::mem::take(&mut set.reader), &set.report)),
    );
    let mut report = TextReport {
        splits: Vec::new(),
        findings: Vec::new(),
        warnings: Vec::new(),
    };
    let mut wholes: Vec<Whole> = Vec::new();
    let is_cleaned = tokenizers.src.cleans_text() && tokenizers.tgt.cleans_text();
    for (reader, corpus) in readers {
        let (split, findings, whole) = reader.finish(corpus, is_cleaned);
        report.splits.push(split);
        report.findings.extend(findings);
        wholes.push(whole);
    }
    if plan.content.has_images() {
        // Many images may be described alike.
        report
            .findings
            .retain(|finding| finding.check != Check::TargetInTrain);
    }
    if data.corpus.is_some() {
        // Nobody can change what an embedded corpus repeats; but all should know what its scores
        // are of.
        report
            .findings
            .retain(|finding| finding.check == Check::SourceInTrain);
        report
            .findings
            .iter_mut()
            .for_each(|finding| finding.advice = OF_EMBEDDED);
    } else if plan.content.is_parallel() {
        report.warnings = sides::find(&setting.languages, &mut wholes);
    }
    Ok(report)
}

impl Setting<'_> {
    /// Streams the pairs that count, those that are left out as well; `watch` is called with those
    /// that are trained on.
    fn read_train(
        &self,
        train: &Corpus,
        cache: &IdCache,
        mut watch: impl FnMut(&str, u64, &Pair),
    ) -> Result<Reader, DataError> {
        let report = cache.report();
        let filter = configured_filter(&self.plan.config.data, self.plan.content);
        let mut reader = Reader::new("train", self.plan.content, &self.languages);
        let lines = cache.lines()?;
        let mut rest = &lines[..];
        let sample = train.sample();
        for (index, (part, of_part)) in train.parts().iter().zip(&report.parts).enumerate() {
            let (kept, others) = rest.split_at(of_part.kept as usize);
            let mut kept = kept.iter().peekable();
            rest = others;
            let is_drawn = |line| sample.as_ref().is_none_or(|sample| sample.has(index, line));
            let pairs = (1..).zip(part.pairs()?).filter(|(line, _)| is_drawn(*line));
            for (line, pair) in pairs.take(of_part.pairs as usize) {
                let pair = pair?;
                let is_kept = kept.next_if(|&&next| u64::from(next) == line).is_some();
                reader.see(&of_part.name, line, &pair, is_kept);
                self.count_changes(&mut reader, &pair)?;
                if is_kept {
                    watch(&of_part.name, line, &pair);
                } else {
                    // What the filter lets through is longer than lengths can be in the cache.
                    let reason = self
                        .reason(filter.as_deref(), &pair)?
                        .unwrap_or(Reason::TOO_LONG);
                    reader.leave_out(reason, &of_part.name, line, &pair);
                }
            }
        }
        Ok(reader)
    }

    /// Counts the words of a pair that the tokenizers' normalization changes; names of images are
    /// no words.
    fn count_changes(&self, reader: &mut Reader, pair: &Pair) -> Result<(), DataError> {
        let content = self.plan.content;
        if content.has_images() || content.target != TargetKind::Text {
            return Ok(());
        }
        reader.count_changes(pair, self.tokenizers)
    }

    /// Why training leaves a pair out, or would; `None` if the filter lets it through.
    fn reason(
        &self,
        filter: Option<&dyn Filter>,
        pair: &Pair,
    ) -> Result<Option<Reason>, DataError> {
        let len = |text: &str, tokenizer: &Tokenizer| {
            if text.trim().is_empty() {
                Ok(0)
            } else {
                tokenizer.encode(text).map(|ids| ids.len())
            }
        };
        let tgt = len(&pair.tgt, &self.tokenizers.tgt)?;
        let one_sided = self.plan.content.is_text_of_targets();
        let src = if one_sided {
            tgt
        } else {
            len(&pair.src, &self.tokenizers.src)?
        };
        let candidate = Candidate {
            pair,
            src_len: src,
            tgt_len: tgt,
        };
        Ok(filter.and_then(|filter| filter.reject(&candidate)))
    }

    fn read_held_out(&self, name: &str, corpus: &Corpus) -> Result<HeldOut, DataError> {
        let mut report = CorpusReport::default();
        let filter = configured_filter(&self.plan.config.data, self.plan.content);
        let mut reader = Reader::new(name, self.plan.content, &self.languages);
        let mut all = Vec::new();
        for part in corpus.parts() {
            let (file, mut line) = (part.name(), 0);
            let mut pairs = part.pairs()?.peekable();
            while pairs.peek().is_some() {
                let chunk: Vec<Pair> = pairs
                    .by_ref()
                    .take(PAIRS_PER_CHUNK)
                    .collect::<Result<_, _>>()?;
                let names = self.plan.content.has_images();
                let sources = chunk
                    .iter()
                    .filter(|_| !names)
                    .map(|pair| pair.src.as_str());
                count_tokens(&mut report.src, &self.tokenizers.src, sources)?;
                count_tokens(
                    &mut report.tgt,
                    &self.tokenizers.tgt,
                    chunk.iter().map(|pair| pair.tgt.as_str()),
                )?;
                for pair in chunk {
                    line += 1;
                    reader.see(&file, line, &pair, true);
                    self.count_changes(&mut reader, &pair)?;
                    if let Some(reason) = self.reason(filter.as_deref(), &pair)? {
                        reader.leave_out(reason, &file, line, &pair);
                    }
                    all.push((file.clone(), line, pair));
                }
            }
        }
        report.pairs = all.len() as u64;
        report.kept = report.pairs;
        Ok(HeldOut {
            reader,
            report,
            pairs: all,
        })
    }
}

impl HeldOut {
    /// Notes the sentences that the training text has, too; `found` says where.
    fn mark(&mut self, found: &HashMap<u64, String>) {
        self.reader.is_compared = true;
        for (file, line, pair) in &self.pairs {
            for (check, side) in [
                (Check::SourceInTrain, Side::Src),
                (Check::TargetInTrain, Side::Tgt),
            ] {
                let known = hash_of(pair, side).and_then(|hash| found.get(&hash));
                if let Some(there) = known {
                    self.reader
                        .add(check, file, *line, pair, Some(there.clone()));
                }
            }
        }
    }
}

/// What a sentence is compared by, apart for the side that is read and the one that is written.
fn hashes(pair: &Pair) -> impl Iterator<Item = u64> {
    [Side::Src, Side::Tgt]
        .into_iter()
        .filter_map(|side| hash_of(pair, side))
}

/// The hash of a side; none of one that is empty. A text of one side is read, and nothing is beside
/// it.
fn hash_of(pair: &Pair, side: Side) -> Option<u64> {
    let text = match side {
        Side::Src if pair.src.is_empty() => &pair.tgt,
        Side::Src => &pair.src,
        Side::Tgt if pair.src.is_empty() => return None,
        Side::Tgt => &pair.tgt,
    };
    (!text.is_empty()).then(|| reader::hash(&(side == Side::Src, text)))
}

fn count_tokens<'a>(
    side: &mut SideReport,
    tokenizer: &Tokenizer,
    texts: impl Iterator<Item = &'a str>,
) -> Result<(), DataError> {
    let unknown = tokenizer.special().unk;
    for ids in tokenizer.encode_batch(&texts.collect::<Vec<_>>())? {
        side.tokens += ids.len() as u64;
        side.unknown += ids.iter().filter(|&&id| id == unknown).count() as u64;
        side.longest = side.longest.max(ids.len());
    }
    Ok(())
}

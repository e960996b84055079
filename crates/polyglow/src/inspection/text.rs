//! The text of every split: sizes, unknown tokens, and what is odd about it, pair by pair and as a
//! whole.

mod reader;
mod report;

use std::collections::{HashMap, HashSet};

use polyglow_data::config::{DataConfig, Direction, Split, TargetKind};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::example::{Candidate, CorpusReport, Filter, Reason, SideReport};
use polyglow_data::id_cache::IdCache;
use polyglow_data::pair::Pair;
use polyglow_data::pair_tags::PairTags;
use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_train::Plan;

use super::sides::{self, Whole};
use super::warning::Warning;
use polyglow_data::clean::findings::{Check, Finding};
use reader::{Reader, Side};
pub(crate) use report::{SideStatistics, SplitReport};

/// Held-out pairs that are encoded together: enough to occupy all cores.
const PAIRS_PER_CHUNK: usize = 4096;

/// The advice on sentences of an embedded corpus that are held out and trained on.
const OF_EMBEDDED: &str =
    "the corpus is so, and scores on this set are in part of what was trained on";

/// The sizes, findings and warnings of all splits.
pub(super) struct TextReport {
    /// `train`, then `valid` if there is one, then the test sets.
    pub(super) splits: Vec<SplitReport>,
    /// Oddities of pairs; of an embedded corpus, which a user cannot change, only the
    /// held-out sentences it trains on.
    pub(super) findings: Vec<Finding>,
    /// Warnings about whole sides.
    pub(super) warnings: Vec<Warning>,
}

/// The plan and the tokenizers with which all splits are read.
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
    // Text of several pairs of languages is compared with none of them.
    let languages = match &data.directions()[..] {
        [Direction { src, tgt, .. }] => [src.clone(), tgt.clone()],
        _ => Default::default(),
    };
    let setting = Setting {
        plan,
        tokenizers,
        languages,
    };
    let splits = held_out_splits(data);
    let Some(cache) = cache else {
        return report::read_images(plan, train, &splits);
    };

    let mut held_out: Vec<HeldOut> = Vec::new();
    for (name, split) in splits {
        let corpus = Corpus::open(data, plan.content, split)?;
        held_out.push(setting.read_held_out(name, &corpus)?);
    }
    let train = compare_with_train(&setting, train, cache, &mut held_out)?;

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
    let is_cleanable = plan.content.is_parallel() && !data.has_several_languages();
    for (reader, corpus) in readers {
        let (split, findings, whole) = reader.finish(corpus, is_cleaned, is_cleanable);
        report.splits.push(split);
        report.findings.extend(findings);
        wholes.push(whole);
    }
    keep_useful(&mut report.findings, plan);
    if data.corpus.is_none() && plan.content.is_parallel() {
        report.warnings = sides::find(&setting.languages, &mut wholes);
    }
    Ok(report)
}

/// Lists the validation set, if there is one, and the test sets, with their names.
fn held_out_splits(data: &DataConfig) -> Vec<(&str, Split<'_>)> {
    let mut splits = Vec::new();
    if data.has_valid() {
        splits.push(("valid", Split::Valid));
    }
    for name in data.test_names() {
        splits.push((name, Split::Test(name)));
    }
    splits
}

/// Streams the training text past the held-out sets, and notes in these which of their sentences it
/// has, too. Returns the reader of the training text.
fn compare_with_train(
    setting: &Setting<'_>,
    train: &Corpus,
    cache: &IdCache,
    held_out: &mut [HeldOut],
) -> Result<Reader, DataError> {
    let held_out_pairs = held_out.iter().flat_map(|set| &set.pairs);
    let watched: HashSet<u64> = held_out_pairs.flat_map(|(.., pair)| hashes(pair)).collect();
    let mut positions = HashMap::new();
    let reader = setting.read_train(train, cache, |file, line, pair| {
        for hash in hashes(pair).filter(|hash| watched.contains(hash)) {
            positions
                .entry(hash)
                .or_insert_with(|| format!("{file}:{line}"));
        }
    })?;
    for set in held_out {
        set.note_repeated(&positions);
    }
    Ok(reader)
}

/// Drops the findings that say nothing about this corpus.
fn keep_useful(findings: &mut Vec<Finding>, plan: &Plan) {
    if plan.content.has_images() {
        // Many images may be described alike.
        findings.retain(|finding| finding.check != Check::TargetInTrain);
    }
    if plan.config.data.corpus.is_some() {
        // A user cannot change what an embedded corpus repeats, but should know that scores on such
        // a set are in part of sentences that were trained on.
        findings.retain(|finding| matches!(finding.check, Check::SourceInTrain | Check::Filtered));
        for finding in findings {
            if finding.check == Check::SourceInTrain {
                finding.advice = OF_EMBEDDED;
            }
        }
    }
}

impl Setting<'_> {
    /// Reads the pairs of the training text, those that are left out as well; `watch` is called
    /// with the file, the line and the pair of those that are trained on.
    fn read_train(
        &self,
        train: &Corpus,
        cache: &IdCache,
        mut watch: impl FnMut(&str, u64, &Pair),
    ) -> Result<Reader, DataError> {
        let report = cache.report();
        let filter = self.plan.filter();
        let mut reader = Reader::new("train", self.plan.content, &self.languages);
        let lines = cache.lines()?;
        let mut rest = &lines[..];
        let sample = train.sample();
        for (index, (part, of_part)) in train.parts().iter().zip(&report.parts).enumerate() {
            let (kept, others) = rest.split_at(of_part.kept as usize);
            let mut kept = kept.iter().peekable();
            rest = others;
            let mut pairs = part.pairs()?;
            // Cleaning leaves pairs out: the cache counts those that stay, and not lines.
            let mut number = 0;
            let mut num_in_cache = 0;
            while num_in_cache < of_part.pairs
                && let Some(pair) = pairs.next().transpose()?
            {
                number += 1;
                // Of an epoch's sample the cache has the pairs that were drawn, and no others.
                if sample
                    .as_ref()
                    .is_some_and(|sample| !sample.has(index, number))
                {
                    continue;
                }
                num_in_cache += 1;
                let line = pairs.num_read();
                let is_kept = kept.next_if(|&&next| u64::from(next) == number).is_some();
                reader.see(&of_part.name, line, &pair, is_kept);
                self.count_changes(&mut reader, &pair)?;
                if is_kept {
                    watch(&of_part.name, line, &pair);
                } else {
                    // A pair that the filter lets through is longer than the cache can store.
                    let reason = self
                        .reason(filter.as_deref(), &pair, part.tags())?
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

    /// Returns why training leaves a pair out, or would; `None` if the filter lets it through.
    fn reason(
        &self,
        filter: Option<&dyn Filter>,
        pair: &Pair,
        tags: &PairTags,
    ) -> Result<Option<Reason>, DataError> {
        // An empty side has no tags.
        let with_tags = |tokens: usize, num_tags: usize| {
            if tokens == 0 { 0 } else { tokens + num_tags }
        };
        let tgt_len = num_tokens(&pair.tgt, &self.tokenizers.tgt)?;
        let tgt_len = with_tags(tgt_len, tags.tgt.iter().len());
        let src_len = if self.plan.content.is_text_of_targets() {
            tgt_len
        } else {
            let src_len = num_tokens(&pair.src, &self.tokenizers.src)?;
            with_tags(src_len, tags.src.len())
        };
        let candidate = Candidate {
            pair,
            src_len,
            tgt_len,
        };
        Ok(filter.and_then(|filter| filter.reject(&candidate)))
    }

    /// Reads a validation or test set whole.
    fn read_held_out(&self, name: &str, corpus: &Corpus) -> Result<HeldOut, DataError> {
        let mut report = CorpusReport::default();
        let filter = self.plan.filter();
        let mut reader = Reader::new(name, self.plan.content, &self.languages);
        let mut all = Vec::new();
        for part in corpus.parts() {
            let file = part.name();
            let mut line = 0;
            let mut pairs = part.pairs()?.peekable();
            while pairs.peek().is_some() {
                let chunk: Vec<Pair> = pairs
                    .by_ref()
                    .take(PAIRS_PER_CHUNK)
                    .collect::<Result<_, _>>()?;
                // The sources of captions are names of files, which have no tokens.
                if !self.plan.content.has_images() {
                    let sources = chunk.iter().map(|pair| pair.src.as_str());
                    count_tokens(&mut report.src, &self.tokenizers.src, sources)?;
                }
                let targets = chunk.iter().map(|pair| pair.tgt.as_str());
                count_tokens(&mut report.tgt, &self.tokenizers.tgt, targets)?;
                for pair in chunk {
                    line += 1;
                    reader.see(&file, line, &pair, true);
                    self.count_changes(&mut reader, &pair)?;
                    if let Some(reason) = self.reason(filter.as_deref(), &pair, part.tags())? {
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
    /// Notes the sentences that the training text has, too; `positions` has the file and the line
    /// of each by its hash.
    fn note_repeated(&mut self, positions: &HashMap<u64, String>) {
        self.reader.is_compared = true;
        for (file, line, pair) in &self.pairs {
            for (check, side) in [
                (Check::SourceInTrain, Side::Src),
                (Check::TargetInTrain, Side::Tgt),
            ] {
                let in_train = hash_of(pair, side).and_then(|hash| positions.get(&hash));
                if let Some(position) = in_train {
                    self.reader
                        .add(check, file, *line, pair, Some(position.clone()));
                }
            }
        }
    }
}

/// Hashes the sides of a pair; equal sentences of different sides have different hashes.
fn hashes(pair: &Pair) -> impl Iterator<Item = u64> {
    [Side::Src, Side::Tgt]
        .into_iter()
        .filter_map(|side| hash_of(pair, side))
}

/// Hashes a side; `None` if it is empty. The text of a corpus of one side counts as its source.
fn hash_of(pair: &Pair, side: Side) -> Option<u64> {
    let text = match side {
        Side::Src if pair.src.is_empty() => &pair.tgt,
        Side::Src => &pair.src,
        Side::Tgt if pair.src.is_empty() => return None,
        Side::Tgt => &pair.tgt,
    };
    (!text.is_empty()).then(|| reader::hash(&(side == Side::Src, text)))
}

/// Counts the tokens of a text; a blank one has none, whatever its tokenizer makes of spaces.
fn num_tokens(text: &str, tokenizer: &Tokenizer) -> Result<usize, DataError> {
    if text.trim().is_empty() {
        return Ok(0);
    }
    Ok(tokenizer.encode(text)?.len())
}

/// Adds the tokens of texts to the counts of a side.
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

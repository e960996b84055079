//! Beam search over a batch of sentences, each of which ends on its own; one beam is greedy search.

use std::cmp::Ordering;

use super::rule::Rule;
use super::{Candidate, NextToken, SearchConfig, SearchMethod, constraint, sample};

/// A translation as ids, and how probable the model thinks it.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// Target ids without the marks around them.
    pub ids: Vec<u32>,
    /// Log-probability of the ids and of the end mark, in nats.
    pub log_prob: f32,
    /// [`SearchConfig::score`] of it, after any penalty for repetition: what hypotheses are ranked
    /// by.
    pub score: f32,
}

/// The marks around a target sentence.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// Fed first.
    pub bos: u32,
    /// Ends a hypothesis.
    pub eos: u32,
}

/// What is asked of the hypotheses for one sentence.
#[derive(Clone, Debug, Default)]
pub struct Sentence {
    /// Fewest tokens, end mark included.
    pub min_len: usize,
    /// Most tokens, end mark included.
    pub max_len: usize,
    /// What every hypothesis begins with.
    pub prefix: Vec<u32>,
    /// Phrases that every hypothesis must contain; none is empty.
    pub constraints: Vec<Vec<u32>>,
    /// Tells the random numbers of one sentence from those of others.
    pub number: u64,
    /// Tells the random numbers of several with the same number apart, as of the parts of a line
    /// and of the pieces of a part; zeros for the first.
    pub part: [u64; 2],
}

impl Sentence {
    /// What the draw for the next token of a hypothesis depends on: the key of a generator, which
    /// no two sentences share that differ in number or part.
    pub(super) fn draw_key(&self, seed: u64, group: usize, len: usize) -> Vec<u64> {
        let mut key = vec![seed, self.number, group as u64, len as u64];
        // Sentences that are not parts draw by the shorter key.
        if self.part != [0, 0] {
            key.extend(self.part);
        }
        key
    }
}

/// A hypothesis that has not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Live {
    pub(super) sentence: usize,
    pub(super) group: usize,
    pub(super) ids: Vec<u32>,
    pub(super) log_prob: f32,
    pub(super) score: f32,
    /// Tokens of each constraint that are met.
    pub(super) met: Vec<usize>,
}

/// One more token for a hypothesis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Continuation {
    /// The hypothesis, by its place in its group.
    pub(super) row: usize,
    pub(super) id: u32,
    /// Log-probability of the whole.
    pub(super) log_prob: f32,
    /// The same after penalties.
    pub(super) score: f32,
    /// What it is ranked by at this position.
    pub(super) rank: f32,
}

impl Continuation {
    /// Best first. Ties go to the row that ranked first before, then to the smaller id, so that
    /// equal scores give equal output.
    pub(super) fn order(left: &Self, right: &Self) -> Ordering {
        right
            .rank
            .total_cmp(&left.rank)
            .then((left.row, left.id).cmp(&(right.row, right.id)))
    }
}

/// Finds up to `beam_size` hypotheses for each sentence, the best first; at least one for each.
///
/// `next` starts with one row per sentence. The beam of a sentence falls into groups (one, unless
/// [`SearchConfig::diversity_groups`] says otherwise; one for each sample or branch) of the same
/// width. At every position each group keeps its best unfinished hypotheses; one that ends among
/// the best is set aside. A group is done when as many as it is wide have ended, and its rows leave
/// the batch. Where none ended in time, the best unfinished ones are returned.
///
/// With a beam of one this is greedy search: the most probable token at each position until the end
/// mark.
pub fn search(
    next: &mut impl NextToken,
    sentences: &[Sentence],
    config: &SearchConfig,
    marks: Marks,
) -> Vec<Vec<Hypothesis>> {
    let (num_groups, width) = config.groups();
    let mut live = start(sentences, num_groups);
    if num_groups > 1 {
        next.select(
            &live
                .iter()
                .map(|hypothesis| hypothesis.sentence)
                .collect::<Vec<_>>(),
        );
    }
    let mut ended: Vec<Vec<Hypothesis>> = vec![Vec::new(); sentences.len() * num_groups];
    while !live.is_empty() {
        let newest: Vec<u32> = live
            .iter()
            .map(|hypothesis| *hypothesis.ids.last().unwrap_or(&marks.bos))
            .collect();
        let rules: Vec<Rule> = live
            .iter()
            .map(|live| Rule::new(live, &sentences[live.sentence], config, marks))
            .collect();
        let candidates = candidates(next, &newest, &rules, num_candidates(config));

        let (mut kept, mut rows) = (Vec::new(), Vec::new());
        let (mut first, mut taken) = (0, Taken::default());
        for group in live
            .chunk_by(|left, right| (left.sentence, left.group) == (right.sentence, right.group))
        {
            let range = first..first + group.len();
            let sentence = &sentences[group[0].sentence];
            let choices = continuations(group, &candidates[range.clone()], &rules[range]);
            let choices = choose(
                choices,
                group,
                sentence,
                config,
                marks,
                taken.before(group[0].sentence),
            );
            let ended = &mut ended[group[0].sentence * num_groups + group[0].group];
            let grown = extend(group, &choices, ended, sentence, config, marks);
            taken.ids.extend(
                grown
                    .iter()
                    .filter_map(|(_, hypothesis)| hypothesis.ids.last()),
            );
            if grown.is_empty() && ended.is_empty() {
                end_unfinished(group.iter(), ended, sentence, config);
            } else if group[0].ids.len() + 1 >= sentence.max_len {
                end_unfinished(
                    grown.iter().map(|(_, hypothesis)| hypothesis),
                    ended,
                    sentence,
                    config,
                );
            } else if ended.len() < width {
                rows.extend(grown.iter().map(|(row, _)| first + row));
                kept.extend(grown.into_iter().map(|(_, hypothesis)| hypothesis));
            }
            first += group.len();
        }
        if !kept.is_empty() && !rows.iter().copied().eq(0..live.len()) {
            next.select(&rows);
        }
        live = kept;
    }
    ended
        .chunks_mut(num_groups)
        .map(|groups| best(groups, config.beam_size))
        .collect()
}

fn start(sentences: &[Sentence], num_groups: usize) -> Vec<Live> {
    let begin = |(sentence, group): (usize, usize)| {
        let met = vec![0; sentences[sentence].constraints.len()];
        Live {
            sentence,
            group,
            ids: Vec::new(),
            log_prob: 0.0,
            score: 0.0,
            met,
        }
    };
    let pairs = (0..sentences.len())
        .flat_map(|sentence| (0..num_groups).map(move |group| (sentence, group)));
    pairs.map(begin).collect()
}

/// What may come next in each row: the `count` most probable tokens and as many more as the row's
/// rule may exclude, and what the rule asks for. A row gets the same whatever other rows ask for,
/// so that no sentence depends on its batch.
fn candidates(
    next: &mut impl NextToken,
    newest: &[u32],
    rules: &[Rule],
    count: usize,
) -> Vec<Vec<Candidate>> {
    let counts: Vec<usize> = rules
        .iter()
        .map(|rule| count.saturating_add(rule.reach()))
        .collect();
    let mut asked: Vec<Vec<u32>> = rules.iter().map(Rule::asked).collect();
    if asked.iter().all(Vec::is_empty) {
        asked.clear();
    }
    let mut rows = next.advance(newest, counts.iter().copied().max().unwrap_or(0), &asked);
    for (number, (row, count)) in rows.iter_mut().zip(counts).enumerate() {
        let asked = asked.get(number).map_or(&[][..], Vec::as_slice);
        let mut place = 0;
        row.retain(|candidate| {
            place += 1;
            place <= count || asked.contains(&candidate.id)
        });
    }
    rows
}

/// How many of the most probable tokens each hypothesis asks for.
fn num_candidates(config: &SearchConfig) -> usize {
    let (num_groups, width) = config.groups();
    match config.method {
        SearchMethod::Sample if config.top_k > 0 => config.top_k,
        SearchMethod::Sample => usize::MAX,
        SearchMethod::Branch => config.beam_size,
        SearchMethod::Beam if config.beam_size == 1 => 1,
        // Up to half of twice the width may be end marks; a group avoids what the groups before it
        // have taken.
        SearchMethod::Beam => 2 * width + if num_groups > 1 { config.beam_size } else { 0 },
    }
}

/// Everything that may come next in a group.
fn continuations(
    group: &[Live],
    candidates: &[Vec<Candidate>],
    rules: &[Rule],
) -> Vec<Continuation> {
    let mut choices = Vec::with_capacity(candidates.iter().map(Vec::len).sum());
    for (row, ((hypothesis, candidates), rule)) in
        group.iter().zip(candidates).zip(rules).enumerate()
    {
        choices.extend(candidates.iter().filter_map(|&candidate| {
            let score = hypothesis.score + rule.score(candidate)?;
            let log_prob = hypothesis.log_prob + candidate.log_prob;
            Some(Continuation {
                row,
                id: candidate.id,
                log_prob,
                score,
                rank: score,
            })
        }));
    }
    choices
}

/// The tokens with which the hypotheses of a sentence's groups have gone on so far at one position.
#[derive(Debug, Default)]
struct Taken {
    sentence: usize,
    ids: Vec<u32>,
}

impl Taken {
    /// Those of the groups before the next one, which is of this sentence.
    fn before(&mut self, sentence: usize) -> &[u32] {
        if self.sentence != sentence {
            *self = Self {
                sentence,
                ids: Vec::new(),
            };
        }
        &self.ids
    }
}

/// What a group goes on with, best first: by probability, by chance, by its number, or with regard
/// to the groups before it and to constraints. `taken` are the tokens of the groups before it: each
/// time that one is there costs the diversity penalty (Vijayakumar et al., 2018, equation 5 with
/// Hamming diversity).
fn choose(
    mut choices: Vec<Continuation>,
    group: &[Live],
    sentence: &Sentence,
    config: &SearchConfig,
    marks: Marks,
    taken: &[u32],
) -> Vec<Continuation> {
    let (_, width) = config.groups();
    if config.method == SearchMethod::Sample {
        let key = sentence.draw_key(config.seed, group[0].group, group[0].ids.len());
        sample::draw(&mut choices, group[0].score, config, &key);
        choices.truncate(1);
        return choices;
    }
    if config.method == SearchMethod::Beam {
        for choice in &mut choices {
            let times = taken.iter().filter(|&&id| id == choice.id).count();
            choice.rank -= times as f32 * config.diversity_penalty as f32;
        }
    }
    choices.sort_by(Continuation::order);
    if config.method == SearchMethod::Branch && group[0].ids.len() == sentence.prefix.len() {
        // Every branch has the same choices here, and takes another one.
        return choices.get(group[0].group).into_iter().copied().collect();
    }
    if sentence.constraints.is_empty() {
        choices.truncate(if width == 1 { 1 } else { 2 * width });
    } else {
        choices = constraint::allocate(&choices, group, &sentence.constraints, width, marks.eos);
    }
    choices
}

/// The best unfinished hypotheses, each with its row in the group; those that end go to `ended`.
fn extend(
    group: &[Live],
    choices: &[Continuation],
    ended: &mut Vec<Hypothesis>,
    sentence: &Sentence,
    config: &SearchConfig,
    marks: Marks,
) -> Vec<(usize, Live)> {
    let (_, width) = config.groups();
    let mut grown = Vec::with_capacity(width);
    for (
        place,
        &Continuation {
            row,
            id,
            log_prob,
            score,
            ..
        },
    ) in choices.iter().enumerate()
    {
        let Live {
            sentence: index,
            group,
            ids,
            met,
            ..
        } = &group[row];
        if id == marks.eos {
            if place < width {
                let score = config.score(score, ids.len() + 1);
                ended.push(Hypothesis {
                    ids: ids.clone(),
                    log_prob,
                    score,
                });
            }
        } else if grown.len() < width {
            let mut longer = Vec::with_capacity(ids.len() + 1);
            longer.extend_from_slice(ids);
            longer.push(id);
            let met = constraint::advance(met, &sentence.constraints, id);
            grown.push((
                row,
                Live {
                    sentence: *index,
                    group: *group,
                    ids: longer,
                    log_prob,
                    score,
                    met,
                },
            ));
        }
    }
    grown
}

/// If no hypothesis ended, the unfinished ones that meet the most of the constraints take its
/// place.
fn end_unfinished<'a>(
    hypotheses: impl Iterator<Item = &'a Live> + Clone,
    ended: &mut Vec<Hypothesis>,
    sentence: &Sentence,
    config: &SearchConfig,
) {
    if !ended.is_empty() {
        return;
    }
    let num_missing =
        |hypothesis: &Live| constraint::num_missing(&hypothesis.met, &sentence.constraints);
    let fewest = hypotheses.clone().map(num_missing).min().unwrap_or(0);
    ended.extend(
        hypotheses
            .filter(|hypothesis| num_missing(hypothesis) == fewest)
            .map(|hypothesis| {
                let Live {
                    ids,
                    log_prob,
                    score,
                    ..
                } = hypothesis.clone();
                if ids.is_empty() {
                    // Only if no token is possible at all (NaN weights) is there nothing.
                    return Hypothesis {
                        ids,
                        log_prob: f32::NEG_INFINITY,
                        score: f32::NEG_INFINITY,
                    };
                }
                Hypothesis {
                    score: config.score(score, ids.len()),
                    ids,
                    log_prob,
                }
            }),
    );
}

/// The best of all groups of a sentence.
fn best(groups: &mut [Vec<Hypothesis>], beam_size: usize) -> Vec<Hypothesis> {
    let mut hypotheses: Vec<Hypothesis> = groups.iter_mut().flat_map(std::mem::take).collect();
    hypotheses.sort_by(|left, right| right.score.total_cmp(&left.score));
    hypotheses.truncate(beam_size);
    hypotheses
}

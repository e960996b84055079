//! Beam search over a batch of sentences, each of which ends on its own; a beam of one is greedy
//! search.
//!
//! The unfinished hypotheses of all sentences form the rows of one batch, sentence by sentence and
//! within a sentence group by group. Each pass of the loop in [`search`] adds a token to every row:
//!
//! 1. Each row has a [`Rule`] for its next token; the scorer proposes candidates that satisfy it.
//! 2. Each group collects the continuations of its rows ([`continuations`]), and keeps the best
//!    ([`Search::choose`]).
//! 3. A continuation by EOS is a result; the others are the rows of the next pass
//!    ([`Search::extend`]).

use super::hypothesis::{Continuation, Hypothesis, Live, Sentence, SpecialTokens};
use super::rule::Rule;
use super::{Candidate, NextToken, SearchConfig, SearchMethod, constraint, sample};

/// Searches up to `beam_size` hypotheses for each sentence and returns them best first, at least
/// one for each.
///
/// `next` starts with one row per sentence. The beam of a sentence is divided into groups of the
/// same width: one group, unless [`SearchConfig::diversity_groups`] says otherwise; one for each
/// sample or branch. At every position each group keeps its best unfinished hypotheses; one that
/// ends among the best is set aside. A group is done when as many as it is wide have ended, and its
/// rows leave the batch. If none has ended at the maximum length, the best unfinished ones are
/// returned.
///
/// With a beam of one this is greedy search: the most probable token at each position until EOS.
pub fn search(
    next: &mut impl NextToken,
    sentences: &[Sentence],
    config: &SearchConfig,
    special: SpecialTokens,
) -> Vec<Vec<Hypothesis>> {
    let search = Search::new(sentences, config, special);
    let mut live = search.start();
    if search.num_groups > 1 {
        // The scorer has one row per sentence; every group needs one of its own.
        let rows: Vec<usize> = live.iter().map(|hypothesis| hypothesis.sentence).collect();
        next.select(&rows);
    }
    let mut ended: Vec<Vec<Hypothesis>> = vec![Vec::new(); sentences.len() * search.num_groups];
    while !live.is_empty() {
        let rules = search.rules(&live);
        let newest = search.newest(&live);
        let candidates = candidates(next, &newest, &rules, num_candidates(config));
        let kept = search.step(&live, &candidates, &rules, &mut ended);
        // Where every row stays in place, as in most steps of greedy search, caches need no copy.
        let is_unchanged = kept.rows.iter().copied().eq(0..live.len());
        if !kept.hypotheses.is_empty() && !is_unchanged {
            next.select(&kept.rows);
        }
        live = kept.hypotheses;
    }
    ended
        .chunks_mut(search.num_groups)
        .map(|groups| best(groups, config.beam_size))
        .collect()
}

/// The settings of a search, the same at every position.
struct Search<'a> {
    sentences: &'a [Sentence],
    config: &'a SearchConfig,
    special: SpecialTokens,
    /// Groups of each sentence.
    num_groups: usize,
    /// Hypotheses of each group.
    width: usize,
}

/// Unfinished hypotheses after a step, and the row of the batch that each one continues.
#[derive(Debug, Default)]
struct Kept {
    rows: Vec<usize>,
    hypotheses: Vec<Live>,
}

impl<'a> Search<'a> {
    fn new(sentences: &'a [Sentence], config: &'a SearchConfig, special: SpecialTokens) -> Self {
        let (num_groups, width) = config.groups();
        Self {
            sentences,
            config,
            special,
            num_groups,
            width,
        }
    }

    /// An empty hypothesis for each group of each sentence.
    fn start(&self) -> Vec<Live> {
        let mut live = Vec::with_capacity(self.sentences.len() * self.num_groups);
        for (index, sentence) in self.sentences.iter().enumerate() {
            for group in 0..self.num_groups {
                live.push(Live::new(index, group, sentence.constraints.len()));
            }
        }
        live
    }

    /// The last token of each hypothesis; BOS before the first position.
    fn newest(&self, live: &[Live]) -> Vec<u32> {
        live.iter()
            .map(|hypothesis| *hypothesis.ids.last().unwrap_or(&self.special.bos))
            .collect()
    }

    /// The rule for the next token of each hypothesis.
    fn rules<'l>(&'l self, live: &'l [Live]) -> Vec<Rule<'l>> {
        live.iter()
            .map(|hypothesis| {
                let sentence = &self.sentences[hypothesis.sentence];
                Rule::new(hypothesis, sentence, self.config, self.special)
            })
            .collect()
    }

    /// Adds a token to the hypotheses of every group. Those that end go to `ended`, which has an
    /// entry for each group; the result is the next batch, without the groups that are done.
    fn step(
        &self,
        live: &[Live],
        candidates: &[Vec<Candidate>],
        rules: &[Rule],
        ended: &mut [Vec<Hypothesis>],
    ) -> Kept {
        let mut kept = Kept::default();
        let mut first_row = 0;
        let mut taken = TakenTokens::default();
        for group in live.chunk_by(is_same_group) {
            let rows = first_row..first_row + group.len();
            let index = group[0].sentence;
            let sentence = &self.sentences[index];
            let ended = &mut ended[index * self.num_groups + group[0].group];

            let choices = continuations(group, &candidates[rows.clone()], &rules[rows]);
            let choices = self.choose(choices, group, taken.in_sentence(index));
            let mut longer = self.extend(group, first_row, &choices, ended);
            taken.add(&longer.hypotheses);

            let is_last_position = group[0].ids.len() + 1 >= sentence.max_len;
            if longer.hypotheses.is_empty() && ended.is_empty() {
                // No token is possible here, so the hypotheses before it are the results.
                *ended = self.unfinished(group);
            } else if is_last_position {
                // Hypotheses that ended are better results than those that were cut off.
                if ended.is_empty() {
                    *ended = self.unfinished(&longer.hypotheses);
                }
            } else if ended.len() < self.width {
                // A group is done only when `width` hypotheses have ended: a later one may score
                // better, since the length penalty favors long ones.
                kept.rows.append(&mut longer.rows);
                kept.hypotheses.append(&mut longer.hypotheses);
            }
            first_row += group.len();
        }
        kept
    }

    /// The continuations that a group chooses among, best first: by probability, by chance, by the
    /// branch's index, or with regard to constraints and to earlier groups.
    ///
    /// `taken` are the tokens that earlier groups of the sentence chose at this position. Each
    /// occurrence of a token there costs the diversity penalty (Vijayakumar et al., 2018, equation
    /// 5 with Hamming diversity).
    fn choose(
        &self,
        mut choices: Vec<Continuation>,
        group: &[Live],
        taken: &[u32],
    ) -> Vec<Continuation> {
        let first = &group[0];
        let sentence = &self.sentences[first.sentence];
        match self.config.method {
            SearchMethod::Sample => {
                let key = sentence.draw_key(self.config.seed, first.group, first.ids.len());
                sample::draw(&mut choices, first.score, self.config, &key);
                choices.truncate(1);
                return choices;
            }
            SearchMethod::Beam => {
                penalize(&mut choices, taken, self.config.diversity_penalty as f32);
            }
            // Branches differ by their first token, and need no penalty.
            SearchMethod::Branch => {}
        }
        choices.sort_by(Continuation::order);
        let is_branching =
            self.config.method == SearchMethod::Branch && first.ids.len() == sentence.prefix.len();
        if is_branching {
            // Every branch has the same choices here, and takes the one of its own index.
            return choices.get(first.group).into_iter().copied().collect();
        }
        if !sentence.constraints.is_empty() {
            let eos = self.special.eos;
            return constraint::allocate(&choices, group, &sentence.constraints, self.width, eos);
        }
        // Each hypothesis has one continuation by EOS, so at most `width` of twice the width end,
        // and enough go on to fill the group. Greedy search takes the best, even if it is EOS.
        choices.truncate(if self.width == 1 { 1 } else { 2 * self.width });
        choices
    }

    /// Extends the hypotheses of a group, whose first row in the batch is `first_row`, by its
    /// choices, which are given best first. Returns at most `width` unfinished ones; those that end
    /// go to `ended`.
    fn extend(
        &self,
        group: &[Live],
        first_row: usize,
        choices: &[Continuation],
        ended: &mut Vec<Hypothesis>,
    ) -> Kept {
        let mut longer = Kept {
            rows: Vec::with_capacity(self.width),
            hypotheses: Vec::with_capacity(self.width),
        };
        for (rank, choice) in choices.iter().enumerate() {
            let hypothesis = &group[choice.row];
            if choice.id == self.special.eos {
                // Only an end among the best `width` counts: without the extra choices, the group
                // would not have kept a worse one.
                if rank < self.width {
                    ended.push(Hypothesis {
                        ids: hypothesis.ids.clone(),
                        log_prob: choice.log_prob,
                        score: self.config.score(choice.score, hypothesis.ids.len() + 1),
                    });
                }
            } else if longer.hypotheses.len() < self.width {
                let constraints = &self.sentences[hypothesis.sentence].constraints;
                longer.rows.push(first_row + choice.row);
                longer
                    .hypotheses
                    .push(hypothesis.extended(choice, constraints));
            }
        }
        longer
    }

    /// The results of a group of which no hypothesis ended: of its unfinished hypotheses those that
    /// miss the fewest tokens of the constraints.
    fn unfinished(&self, hypotheses: &[Live]) -> Vec<Hypothesis> {
        let fewest = hypotheses
            .iter()
            .map(|hypothesis| self.num_missing(hypothesis))
            .min();
        hypotheses
            .iter()
            .filter(|hypothesis| Some(self.num_missing(hypothesis)) == fewest)
            .map(|hypothesis| self.cut_off(hypothesis))
            .collect()
    }

    /// The tokens of the constraints that a hypothesis misses.
    fn num_missing(&self, hypothesis: &Live) -> usize {
        let constraints = &self.sentences[hypothesis.sentence].constraints;
        constraint::num_missing(&hypothesis.met, constraints)
    }

    /// The result of a hypothesis that ends without EOS.
    fn cut_off(&self, hypothesis: &Live) -> Hypothesis {
        let ids = hypothesis.ids.clone();
        if ids.is_empty() {
            // A hypothesis without tokens means that none is possible, as with NaN weights: it
            // ranks behind all others.
            return Hypothesis {
                ids,
                log_prob: f32::NEG_INFINITY,
                score: f32::NEG_INFINITY,
            };
        }
        Hypothesis {
            score: self.config.score(hypothesis.score, ids.len()),
            ids,
            log_prob: hypothesis.log_prob,
        }
    }
}

fn is_same_group(left: &Live, right: &Live) -> bool {
    (left.sentence, left.group) == (right.sentence, right.group)
}

/// The candidates for the next token of each row: the `count` most probable tokens, as many more as
/// the row's rule may exclude, and those that the rule requests.
fn candidates(
    next: &mut impl NextToken,
    newest: &[u32],
    rules: &[Rule],
    count: usize,
) -> Vec<Vec<Candidate>> {
    let counts: Vec<usize> = rules
        .iter()
        .map(|rule| count.saturating_add(rule.num_affected()))
        .collect();
    let most = counts.iter().copied().max().unwrap_or(0);
    let mut requested: Vec<Vec<u32>> = rules.iter().map(Rule::requested).collect();
    if requested.iter().all(Vec::is_empty) {
        // Without requests, a scorer on a GPU need not gather their scores.
        requested.clear();
    }
    let mut rows = next.advance(newest, most, &requested);
    // The scorer gives every row as many candidates as the most demanding row needs. The excess is
    // removed, so that the result for a sentence does not depend on its batch.
    for (row, candidates) in rows.iter_mut().enumerate() {
        let requested = requested.get(row).map_or(&[][..], Vec::as_slice);
        let mut rank = 0;
        candidates.retain(|candidate| {
            rank += 1;
            rank <= counts[row] || requested.contains(&candidate.id)
        });
    }
    rows
}

/// The number of most probable tokens that are needed for each hypothesis, if no rule excludes any.
fn num_candidates(config: &SearchConfig) -> usize {
    let (num_groups, width) = config.groups();
    match config.method {
        SearchMethod::Sample if config.top_k > 0 => config.top_k,
        SearchMethod::Sample => usize::MAX,
        SearchMethod::Branch => config.beam_size,
        SearchMethod::Beam if config.beam_size == 1 => 1,
        // Half of twice the width may be EOS, see `Search::choose`. A group also avoids the tokens
        // of earlier groups, which are at most as many as the beam is wide.
        SearchMethod::Beam => 2 * width + if num_groups > 1 { config.beam_size } else { 0 },
    }
}

/// Every allowed continuation of a group's hypotheses.
fn continuations(
    group: &[Live],
    candidates: &[Vec<Candidate>],
    rules: &[Rule],
) -> Vec<Continuation> {
    let mut choices = Vec::with_capacity(candidates.iter().map(Vec::len).sum());
    for (row, hypothesis) in group.iter().enumerate() {
        for &candidate in &candidates[row] {
            let Some(penalized) = rules[row].score(candidate) else {
                continue;
            };
            let score = hypothesis.score + penalized;
            choices.push(Continuation {
                row,
                id: candidate.id,
                log_prob: hypothesis.log_prob + candidate.log_prob,
                score,
                sort_key: score,
            });
        }
    }
    choices
}

/// Subtracts `penalty` from the sort key of a continuation for each time that its token is among
/// `taken`. Scores stay as they are, so that the groups' hypotheses can be compared in the end.
fn penalize(choices: &mut [Continuation], taken: &[u32], penalty: f32) {
    for choice in choices {
        let count = taken.iter().filter(|&&id| id == choice.id).count();
        choice.sort_key -= count as f32 * penalty;
    }
}

/// The tokens that the groups of a sentence have chosen so far at one position.
#[derive(Debug, Default)]
struct TakenTokens {
    sentence: usize,
    ids: Vec<u32>,
}

impl TakenTokens {
    /// The tokens that groups of this sentence have chosen; groups come sentence by sentence.
    fn in_sentence(&mut self, sentence: usize) -> &[u32] {
        if self.sentence != sentence {
            self.sentence = sentence;
            self.ids.clear();
        }
        &self.ids
    }

    /// Adds the newest tokens of a group.
    fn add(&mut self, hypotheses: &[Live]) {
        let newest = hypotheses
            .iter()
            .filter_map(|hypothesis| hypothesis.ids.last());
        self.ids.extend(newest);
    }
}

/// The best of all groups of a sentence.
fn best(groups: &mut [Vec<Hypothesis>], beam_size: usize) -> Vec<Hypothesis> {
    let mut hypotheses: Vec<Hypothesis> = groups.iter_mut().flat_map(std::mem::take).collect();
    // The sort is stable, so ties keep the order of groups, and within a group that of ending.
    hypotheses.sort_by(|left, right| right.score.total_cmp(&left.score));
    hypotheses.truncate(beam_size);
    hypotheses
}

//! Beam search over a batch of sentences, each of which ends on its own; a beam of one is greedy
//! search.
//!
//! The unfinished hypotheses of all sentences form the rows of one batch, sentence by sentence and
//! within a sentence group by group. Each pass of the loop in [`search`] adds a token to every row:
//!
//! 1. Each row has a [`Rule`] for its next token. The scorer returns the row's most probable tokens,
//!    with as many to spare as the rule may exclude, and the tokens that the rule requests
//!    ([`fetch_candidates`]).
//! 2. Each group collects the continuations of its rows that the rules allow ([`allowed_continuations`]),
//!    and keeps the best ([`Search::choose`]).
//! 3. A continuation by EOS is a result; the others are the rows of the next pass
//!    ([`Search::extend`]).

use super::hypothesis::{Continuation, Hypothesis, Sentence, SpecialTokens, Unfinished};
use super::rule::Rule;
use super::{Candidate, Scorer, SearchConfig, SearchMethod, constraint, sample};

/// Searches up to `beam_size` hypotheses for each sentence and returns them best first, at least
/// one for each.
///
/// `scorer` starts with one row per sentence. The beam of a sentence is divided into groups of the
/// same width: one group, unless [`SearchConfig::diversity_groups`] says otherwise; one for each
/// sample or branch. At every position each group keeps its best unfinished hypotheses. One whose
/// EOS ranks among the best `width`, the width of the group, is finished and becomes a result.
///
/// A group is done, and its rows leave the batch, when `width` hypotheses are finished, at the
/// maximum length, or where no token is possible. A group without a finished hypothesis then returns
/// its unfinished ones, with constraints only those that miss the fewest tokens. The results of all groups of a sentence are ranked together.
///
/// With a beam of one this is greedy search: the most probable token at each position until EOS.
pub fn search(
    scorer: &mut impl Scorer,
    sentences: &[Sentence],
    config: &SearchConfig,
    special: SpecialTokens,
) -> Vec<Vec<Hypothesis>> {
    let search = Search::new(sentences, config, special);
    let mut unfinished = search.start();
    if search.num_groups > 1 {
        // The scorer has one row per sentence; every group needs one of its own.
        let rows: Vec<usize> = unfinished
            .iter()
            .map(|hypothesis| hypothesis.sentence)
            .collect();
        scorer.select(&rows);
    }
    let mut finished: Vec<Vec<Hypothesis>> = vec![Vec::new(); sentences.len() * search.num_groups];
    while !unfinished.is_empty() {
        let rules = search.rules(&unfinished);
        let last_tokens = search.last_tokens(&unfinished);
        let candidates = fetch_candidates(scorer, &last_tokens, &rules, num_candidates(config));
        let kept = search.step(&unfinished, &candidates, &rules, &mut finished);
        // Where every row stays in place, as in most steps of greedy search, caches need no copy.
        let is_unchanged = kept.parents.iter().copied().eq(0..unfinished.len());
        if !kept.hypotheses.is_empty() && !is_unchanged {
            scorer.select(&kept.parents);
        }
        unfinished = kept.hypotheses;
    }
    finished
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

/// Unfinished hypotheses after a step, and the row of the batch that each one continues (its
/// back-pointer).
#[derive(Debug, Default)]
struct Kept {
    parents: Vec<usize>,
    hypotheses: Vec<Unfinished>,
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

    /// An empty hypothesis for each group of each sentence. It is one whatever the width, since
    /// copies of it would all continue by the same tokens.
    fn start(&self) -> Vec<Unfinished> {
        let mut unfinished = Vec::with_capacity(self.sentences.len() * self.num_groups);
        for (index, sentence) in self.sentences.iter().enumerate() {
            for group in 0..self.num_groups {
                unfinished.push(Unfinished::new(index, group, sentence.constraints.len()));
            }
        }
        unfinished
    }

    /// The last token of each hypothesis; BOS before the first position.
    fn last_tokens(&self, unfinished: &[Unfinished]) -> Vec<u32> {
        unfinished
            .iter()
            .map(|hypothesis| *hypothesis.ids.last().unwrap_or(&self.special.bos))
            .collect()
    }

    /// The rule for the next token of each hypothesis.
    fn rules<'l>(&'l self, unfinished: &'l [Unfinished]) -> Vec<Rule<'l>> {
        unfinished
            .iter()
            .map(|hypothesis| {
                let sentence = &self.sentences[hypothesis.sentence];
                Rule::new(hypothesis, sentence, self.config, self.special)
            })
            .collect()
    }

    /// Adds a token to the hypotheses of every group. Those that end go to `finished`, which has an
    /// entry for each group; the result is the next batch, without the groups that are done.
    fn step(
        &self,
        unfinished: &[Unfinished],
        candidates: &[Vec<Candidate>],
        rules: &[Rule],
        finished: &mut [Vec<Hypothesis>],
    ) -> Kept {
        let mut kept = Kept::default();
        let mut first_row = 0;
        let mut taken = TakenTokens::default();
        for group in unfinished.chunk_by(is_same_group) {
            let rows = first_row..first_row + group.len();
            let index = group[0].sentence;
            let sentence = &self.sentences[index];
            let group_finished = &mut finished[index * self.num_groups + group[0].group];

            taken.start_sentence(index);
            let continuations =
                allowed_continuations(group, &candidates[rows.clone()], &rules[rows]);
            let chosen = self.choose(continuations, group, &taken.ids);
            let mut longer = self.extend(group, first_row, &chosen, group_finished);
            taken.add(&longer.hypotheses);

            let is_last_position = group[0].ids.len() + 1 >= sentence.max_len;
            if longer.hypotheses.is_empty() && group_finished.is_empty() {
                // No token is possible here, so the hypotheses before it are the results.
                *group_finished = self.results_without_eos(group);
            } else if is_last_position {
                // Within a group, hypotheses that finished are better results than those that were cut
                // off.
                if group_finished.is_empty() {
                    *group_finished = self.results_without_eos(&longer.hypotheses);
                }
            } else if group_finished.len() < self.width {
                // With length normalization a later hypothesis may still score better. Where there
                // are no continuations nothing is added, so that the group is done.
                kept.parents.append(&mut longer.parents);
                kept.hypotheses.append(&mut longer.hypotheses);
            }
            first_row += group.len();
        }
        kept
    }

    /// Chooses among the continuations of a group:
    ///
    /// - when sampling, one drawn token;
    /// - a branch that has just written the prefix: the token with the branch's index, by
    ///   probability;
    /// - with constraints, what [`constraint::allocate`] chooses: continuations by EOS first, at most
    ///   `width` of them, then the others, best first;
    /// - else the best, best first: one in greedy search, otherwise twice the width.
    ///
    /// `taken` are the tokens by which earlier groups of the sentence have continued at this
    /// position. Each occurrence of a token there costs the diversity penalty (Vijayakumar et al.,
    /// 2018, equation 5 with Hamming diversity). EOS is never among them: a group that ends does not
    /// keep later groups from ending.
    fn choose(
        &self,
        mut choices: Vec<Continuation>,
        group: &[Unfinished],
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
            self.config.method == SearchMethod::Branch && first.ids.len() == sentence.num_forced();
        if is_branching {
            // Every branch has the same choices here, and takes the one of its own index.
            return choices.get(first.group).into_iter().copied().collect();
        }
        if !sentence.constraints.is_empty() {
            let eos = self.special.eos;
            return constraint::allocate(&choices, group, &sentence.constraints, self.width, eos);
        }
        // Each hypothesis has one continuation by EOS. So of the best `2 * width` continuations at
        // most `width` are by EOS, and at least `width` others remain, if there are that many.
        // Greedy search takes the best, even if it is EOS.
        choices.truncate(if self.width == 1 { 1 } else { 2 * self.width });
        choices
    }

    /// Extends the hypotheses of a group, whose first row in the batch is `first_row`, by the
    /// continuations that [`Self::choose`] gave, in their order. Returns at most `width` unfinished
    /// ones; those that end go to `finished`.
    fn extend(
        &self,
        group: &[Unfinished],
        first_row: usize,
        chosen: &[Continuation],
        finished: &mut Vec<Hypothesis>,
    ) -> Kept {
        let mut longer = Kept {
            parents: Vec::with_capacity(self.width),
            hypotheses: Vec::with_capacity(self.width),
        };
        for (rank, choice) in chosen.iter().enumerate() {
            let hypothesis = &group[choice.row];
            if choice.id == self.special.eos {
                // An EOS that ranks below `width` would not be in a beam of that width: only the
                // spare continuations brought it here. (With constraints none ranks there.)
                if rank < self.width {
                    finished.push(Hypothesis {
                        ids: self.written(hypothesis),
                        log_prob: choice.log_prob,
                        // EOS counts as a token of the length.
                        score: self.config.score(choice.score, hypothesis.ids.len() + 1),
                    });
                }
            } else if longer.hypotheses.len() < self.width {
                let constraints = &self.sentences[hypothesis.sentence].constraints;
                longer.parents.push(first_row + choice.row);
                longer
                    .hypotheses
                    .push(hypothesis.extended(choice, constraints));
            }
        }
        longer
    }

    /// The results of a group of which no hypothesis finished: of its unfinished hypotheses those that
    /// miss the fewest tokens of the constraints.
    fn results_without_eos(&self, hypotheses: &[Unfinished]) -> Vec<Hypothesis> {
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
    fn num_missing(&self, hypothesis: &Unfinished) -> usize {
        let constraints = &self.sentences[hypothesis.sentence].constraints;
        constraint::num_missing(&hypothesis.met, constraints)
    }

    /// The tokens of a hypothesis behind the start.
    fn written(&self, hypothesis: &Unfinished) -> Vec<u32> {
        let start = self.sentences[hypothesis.sentence].start.len();
        hypothesis.ids[start.min(hypothesis.ids.len())..].to_vec()
    }

    /// The result of a hypothesis that ends without EOS.
    fn cut_off(&self, hypothesis: &Unfinished) -> Hypothesis {
        let ids = self.written(hypothesis);
        if ids.is_empty() {
            // A hypothesis without tokens means that none is possible, as with NaN weights: it
            // ranks behind all others. (One with a prefix keeps its score.)
            return Hypothesis {
                ids,
                log_prob: f32::NEG_INFINITY,
                score: f32::NEG_INFINITY,
            };
        }
        Hypothesis {
            // Without EOS, which would be one more token.
            score: self.config.score(hypothesis.score, hypothesis.ids.len()),
            ids,
            log_prob: hypothesis.log_prob,
        }
    }
}

fn is_same_group(left: &Unfinished, right: &Unfinished) -> bool {
    (left.sentence, left.group) == (right.sentence, right.group)
}

/// The candidates for the next token of each row: the `count` most probable tokens, as many more as
/// the row's rule may exclude or move down, and those that the rule requests.
fn fetch_candidates(
    scorer: &mut impl Scorer,
    last_tokens: &[u32],
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
    let mut rows = scorer.advance(last_tokens, most, &requested);
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
        // The whole vocabulary.
        SearchMethod::Sample => usize::MAX,
        // Where branches part, each takes the candidate of its own index.
        SearchMethod::Branch => config.beam_size,
        SearchMethod::Beam if config.beam_size == 1 => 1,
        // Up to `width` of these may be EOS, see `Search::choose`. A group also avoids the tokens of
        // earlier groups, which are at most as many as the beam is wide.
        SearchMethod::Beam => 2 * width + if num_groups > 1 { config.beam_size } else { 0 },
    }
}

/// Every allowed continuation of a group's hypotheses.
fn allowed_continuations(
    group: &[Unfinished],
    candidates: &[Vec<Candidate>],
    rules: &[Rule],
) -> Vec<Continuation> {
    let mut continuations = Vec::with_capacity(candidates.iter().map(Vec::len).sum());
    for (row, hypothesis) in group.iter().enumerate() {
        for &candidate in &candidates[row] {
            let Some(price) = rules[row].price(candidate) else {
                continue;
            };
            let score = hypothesis.score + price.score;
            continuations.push(Continuation {
                row,
                id: candidate.id,
                log_prob: hypothesis.log_prob + price.log_prob,
                score,
                sort_key: score,
            });
        }
    }
    continuations
}

/// Subtracts `penalty` from the sort key of a continuation for each time that its token is among
/// `taken`. Scores stay as they are, so that the groups' hypotheses can be compared in the end.
fn penalize(choices: &mut [Continuation], taken: &[u32], penalty: f32) {
    for choice in choices {
        let count = taken.iter().filter(|&&id| id == choice.id).count();
        choice.sort_key -= count as f32 * penalty;
    }
}

/// The tokens by which the groups of a sentence have continued so far at one position.
#[derive(Debug, Default)]
struct TakenTokens {
    sentence: usize,
    ids: Vec<u32>,
}

impl TakenTokens {
    /// Forgets the tokens of the sentence before, if the groups of another begin; groups come
    /// sentence by sentence.
    fn start_sentence(&mut self, sentence: usize) {
        if self.sentence != sentence {
            self.sentence = sentence;
            self.ids.clear();
        }
    }

    /// Adds the last tokens of a group.
    fn add(&mut self, hypotheses: &[Unfinished]) {
        let last = hypotheses
            .iter()
            .filter_map(|hypothesis| hypothesis.ids.last());
        self.ids.extend(last);
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

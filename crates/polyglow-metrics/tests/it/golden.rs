//! The values that `scripts/golden-metrics.py` wrote, and the comparison of a text with them.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use polyglow_metrics::{Metric, Score, corpus_score, sentence_scores};
use serde::Deserialize;

use crate::arguments::{BleuArguments, ChrfArguments, TerArguments, golden_tokenizer};

/// Room for another standard library's logarithm and exponential, and for Python 3.12's more exact
/// `sum`.
const TOLERANCE: f64 = 1e-11;

/// A text with all that sacreBLEU says about it.
#[derive(Deserialize)]
pub(crate) struct Golden {
    hypotheses: Vec<String>,
    references: Vec<Vec<String>>,
    tokens: HashMap<String, Vec<Vec<String>>>,
    bleu: Vec<BleuCase>,
    chrf: Vec<Case<ChrfArguments>>,
    ter: Vec<Case<TerArguments>>,
}

#[derive(Deserialize)]
struct Case<O> {
    options: O,
    signature: String,
    line: String,
    score: f64,
    sentences: Vec<f64>,
}

#[derive(Deserialize)]
struct BleuCase {
    #[serde(flatten)]
    case: Case<BleuArguments>,
    precisions: Vec<f64>,
    bp: f64,
    sys_len: u64,
    ref_len: u64,
}

impl Golden {
    /// Compares every number, token, signature and line with ours.
    pub(crate) fn check(&self, name: &str) {
        for (name_of_tokenizer, lines) in &self.tokens {
            let tokenizer = golden_tokenizer(name_of_tokenizer);
            for (line, expected) in self.hypotheses.iter().zip(lines) {
                let text = tokenizer.tokenize(line);
                let is_space = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
                let tokens = text.split(is_space).filter(|token| !token.is_empty());
                assert_eq!(
                    &tokens.collect::<Vec<_>>(),
                    expected,
                    "{name}: {name_of_tokenizer} of {line:?}"
                );
            }
        }
        for bleu in &self.bleu {
            let options = bleu.case.options.options();
            self.check_scores(name, &options, &bleu.case);
            let score = corpus_score(&options, &self.hypotheses, &self.references)
                .expect("the input is valid");
            assert_eq!(score.precisions.len(), bleu.precisions.len());
            for (ours, theirs) in score.precisions.iter().zip(&bleu.precisions) {
                assert_close(*ours, *theirs, name);
            }
            assert_close(score.brevity_penalty, bleu.bp, name);
            assert_eq!(
                (score.hypothesis_len, score.reference_len),
                (bleu.sys_len, bleu.ref_len)
            );
        }
        for chrf in &self.chrf {
            self.check_scores(name, &chrf.options.options(), chrf);
        }
        for ter in &self.ter {
            self.check_scores(name, &ter.options.options(), ter);
        }
    }

    fn check_scores<O>(&self, name: &str, metric: &impl Metric, case: &Case<O>) {
        let signature = metric.signature(self.references.len()).to_string();
        let context = format!("{name}: {signature}");
        assert_eq!(
            signature.split_once("|version:").map(|pair| pair.0),
            Some(&*case.signature)
        );

        let score =
            corpus_score(metric, &self.hypotheses, &self.references).expect("the input is valid");
        assert_close(score.value(), case.score, &context);
        assert_eq!(score.to_string(), case.line, "{context}");

        let sentences = sentence_scores(metric, &self.hypotheses, &self.references)
            .expect("the input is valid");
        assert_eq!(sentences.len(), case.sentences.len());
        for (index, (ours, theirs)) in sentences.iter().zip(&case.sentences).enumerate() {
            assert_close(
                ours.value(),
                *theirs,
                &format!("{context}, line {}", index + 1),
            );
        }
    }
}

pub(crate) fn assert_close(ours: f64, theirs: f64, context: &str) {
    assert!(
        (ours - theirs).abs() <= TOLERANCE,
        "{context}: {ours} is not sacreBLEU's {theirs}"
    );
}

#[test]
fn every_committed_text_scores_as_in_sacrebleu() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut texts = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let golden: Golden = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        golden.check(&path.file_stem().unwrap().to_string_lossy());
        texts += 1;
    }
    assert_eq!(texts, 6);
}

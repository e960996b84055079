//! Language models: which tokens are scored, given which, and what they are compared with.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor, TensorData, s};
use polyglow_data::example::Reason;
use polyglow_data::ngram::NgramModel;
use polyglow_data::pair::Pair;
use polyglow_metrics::Tokenizer;
use polyglow_model::{Predict, Text};
use polyglow_predict::evaluation::Evaluation;
use polyglow_train::tasks::language::{NgramScores, ngram_scores};
use polyglow_train::tasks::{HeldOut, evaluate};
use polyglow_train::{Config, Runner, Silent, Stop, Training, load_runner};

/// The most tokens of a line.
const LONGEST: usize = 6;
/// Two blank lines, and one that is longer than [`LONGEST`].
const TRAIN: &str = "a b c\n\nb c d e\na\n   \nd e a b c d e a b\ne d\nc b a\n";
/// A blank line, one of spaces, and one longer than [`LONGEST`]: of 20 tokens.
const TEST: &str = "a b\n\nb c d e a b c d e a b c d e a b c d e a\n \ne\n";

const MODEL: &str = "
[tokenizer]
kind = 'word'
[model]
arch = 'lm'
d_model = 8
d_ff = 12
num_heads = 2
num_decoder_layers = 1
[train]
max_tokens = 64
max_steps = 3
warmup_steps = 1
label_smoothing = 0.0
";

/// The training of a tiny model on the text of a directory; `data` are more keys of `[data]`.
fn train(dir: &Path, data: &str) -> Training {
    fs::write(dir.join("train.txt"), TRAIN).expect("it can be written");
    let train = dir.join("train.txt");
    let text = format!(
        "[data]\ntrain = '{}'\nmax_len = {LONGEST}\n{data}{MODEL}",
        train.display()
    );
    let config = Config::from_text(&text, &[]).expect("it is a config");
    let mut training =
        Training::prepare(config, dir.join("run"), &mut Silent).expect("nothing is wrong");
    training
        .run(&Stop::default(), &mut Silent)
        .expect("nothing is wrong");
    training
}

fn runner(training: &Training) -> Runner {
    load_runner(training.run.root(), &training.plan.device).expect("it is a run")
}

fn lines(text: &str) -> Vec<Pair> {
    text.lines()
        .map(|line| Pair {
            src: String::new(),
            tgt: line.to_owned(),
        })
        .collect()
}

fn scores(runner: &Runner, text: &str) -> Evaluation {
    evaluate(
        runner,
        &HeldOut::Text(lines(text)),
        &Tokenizer::default().into(),
    )
    .expect("it can be scored")
}

/// The log-probability of `target` after `inputs`, by the model alone.
fn log_prob(runner: &Runner, inputs: &[u32], target: u32) -> f32 {
    let ids: Vec<i32> = inputs.iter().map(|&id| id as i32).collect();
    let len = ids.len();
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [1, len]), &runner.device);
    let log_probs = log_softmax(runner.members[0].model.predict(Text { ids }).logits(), 1);
    log_probs
        .slice(s![len - 1..len, target as usize..=target as usize])
        .into_scalar()
}

#[test]
fn every_token_of_a_long_line_is_scored_in_windows_that_overlap() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let runner = runner(&train(dir.path(), ""));
    assert_eq!(runner.longest, LONGEST);
    let special = runner.tgt.special();
    let forced = runner
        .task
        .teacher_forced(&runner, &lines(TEST))
        .expect("it can be scored");
    assert_eq!(
        forced
            .iter()
            .map(|line| line.log_probs.len())
            .collect::<Vec<_>>(),
        [3, 0, 21, 0, 2]
    );
    assert!(forced.iter().all(|line| !line.truncated));
    for (line, forced) in TEST.lines().zip(forced) {
        let ids = runner.tgt.encode(line).expect("it has ids");
        let (inputs, targets) = (
            [&[special.bos], &*ids].concat(),
            [&*ids, &[special.eos]].concat(),
        );
        for (position, actual) in forced.log_probs.into_iter().enumerate() {
            // Windows of seven positions begin at 0, 4, 8, ...; a position counts in the first that
            // has it.
            let start = position.saturating_sub(LONGEST).div_ceil(4) * 4;
            let expected = log_prob(&runner, &inputs[start..=position], targets[position]);
            assert!(
                (actual - expected).abs() < 1e-5,
                "position {position} of `{line}`: {actual} and {expected}"
            );
        }
    }
}

#[test]
fn bits_per_byte_are_of_all_bytes_and_all_of_them_are_scored() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let runner = runner(&train(dir.path(), ""));
    let actual = scores(&runner, TEST).scores;
    // 26 targets, and the bytes of three lines with their breaks: 4, 40 and 2.
    let bits = actual.loss * 26.0 / std::f64::consts::LN_2 / 46.0;
    assert!(
        actual
            .bits_per_byte
            .is_some_and(|actual| (actual - bits).abs() < 1e-9),
        "{actual:?}"
    );
    assert_eq!(actual.truncated, None);
}

#[test]
fn blank_lines_are_left_out_of_training_and_of_scores_or_of_neither() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = train(dir.path(), "");
    let report = |training: &Training| training.data.text().expect("it is text").report().clone();
    assert_eq!(
        (
            report(&training).kept,
            report(&training).count(Reason::EMPTY),
            report(&training).count(Reason::TOO_LONG)
        ),
        (5, 2, 1)
    );
    let without: String = TEST
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.to_owned() + "\n")
        .collect();
    let one = runner(&training);
    assert_eq!(scores(&one, TEST).scores, scores(&one, &without).scores);
    let error = evaluate(
        &one,
        &HeldOut::Text(lines("\n \n")),
        &Tokenizer::default().into(),
    )
    .expect_err("no line remains");
    assert!(error.to_string().contains("all lines are blank"), "{error}");

    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = train(dir.path(), "context_len = 5\n");
    assert_eq!(
        (report(&training).kept, report(&training).pairs),
        (8, 8),
        "a window reads all lines"
    );
    let window_runner = runner(&training);
    let forced = window_runner
        .task
        .teacher_forced(&window_runner, &lines(TEST))
        .expect("it can be scored");
    assert_eq!(
        forced
            .iter()
            .map(|line| line.log_probs.len())
            .collect::<Vec<_>>(),
        [3, 1, 21, 1, 2]
    );
    let scores = scores(&runner(&training), TEST).scores;
    // Two more of both: a line of spaces is a blank one.
    let bits = scores.loss * 28.0 / std::f64::consts::LN_2 / 48.0;
    assert!(
        scores
            .bits_per_byte
            .is_some_and(|actual| (actual - bits).abs() < 1e-9),
        "{scores:?}"
    );
}

/// The scores of an n-gram model of these lines, each with its count, on the lines `test`.
fn counted(training: &Training, train: &[(&str, usize)], test: &[&str]) -> NgramScores {
    let tokenizer = Arc::clone(&training.tokenizers.tgt);
    let encode = |line: &str| tokenizer.encode(line).expect("it has ids");
    let lines = train
        .iter()
        .flat_map(|(line, times)| std::iter::repeat_n(encode(line), *times));
    let model = NgramModel::train(lines, 5, tokenizer.vocab_size(), tokenizer.special())
        .expect("they can be counted");
    let scores: Vec<(f64, usize)> = test.iter().map(|line| model.score(&encode(line))).collect();
    let nats: f64 = scores.iter().map(|(nats, _)| nats).sum();
    let bytes: usize = test.iter().map(|line| line.len() + 1).sum();
    NgramScores {
        order: 5,
        perplexity: (nats / scores.iter().map(|(_, tokens)| *tokens).sum::<usize>() as f64).exp(),
        bits_per_byte: nats / std::f64::consts::LN_2 / bytes as f64,
    }
}

#[test]
fn the_model_of_counts_reads_and_is_scored_on_the_lines_of_the_training() {
    let test: Vec<&str> = TEST
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let scores = |training: &Training| {
        ngram_scores(&training.plan, &training.tokenizers.tgt, &lines(TEST))
            .expect("it can be scored")
    };
    let once = |lines: &[&'static str]| lines.iter().map(|line| (*line, 1)).collect::<Vec<_>>();
    let kept = ["a b c", "b c d e", "a", "e d", "c b a"];

    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = train(dir.path(), "");
    assert_eq!(scores(&training), counted(&training, &once(&kept), &test));

    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = train(dir.path(), "max_examples = 3\n");
    assert_eq!(
        scores(&training),
        counted(&training, &once(&kept[..2]), &test)
    );

    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = train(dir.path(), "context_len = 5\n");
    let blank = [
        "a b c",
        "",
        "b c d e",
        "a",
        "",
        "d e a b c d e a b",
        "e d",
        "c b a",
    ];
    let all = [test[0], "", test[1], "", test[2]];
    assert_eq!(scores(&training), counted(&training, &once(&blank), &all));
}

#[test]
fn the_model_of_counts_follows_the_weights_of_corpora() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| dir.path().join(name);
    fs::write(path("one"), "a b c\nb c d e\n").expect("it can be written");
    fs::write(path("two"), "e d\nc b a\n").expect("it can be written");
    let entry = |name: &str, weight: f64| {
        format!(
            "{{ path = '{}', weight = {weight:?} }}",
            path(name).display()
        )
    };
    let test = ["a b", "e"];
    let prepare = |run: &str, weights: [f64; 2]| {
        let config = format!(
            "[data]\ntrain = [{}, {}]\n{MODEL}",
            entry("one", weights[0]),
            entry("two", weights[1])
        );
        let config = Config::from_text(&config, &[]).expect("it is a config");
        Training::prepare(config, path(run), &mut Silent).expect("nothing is wrong")
    };
    let score = |training: &Training| {
        ngram_scores(&training.plan, &training.tokenizers.tgt, &lines("a b\ne\n"))
            .expect("it can be scored")
    };
    let training = prepare("run", [0.5, 1.0]);
    let actual = score(&training);
    let weighted = [("a b c", 1), ("b c d e", 1), ("e d", 2), ("c b a", 2)];
    assert_eq!(actual, counted(&training, &weighted, &test));
    assert_ne!(
        actual,
        counted(&training, &weighted.map(|(line, _)| (line, 1)), &test)
    );
    // 1 : 1.4 is five times and seven: of five lines two count twice.
    fs::write(path("two"), "e d\nc b a\ne\nd e\na a\n").expect("it can be written");
    let training = prepare("fractional", [1.0, 1.4]);
    let weighted = [
        ("a b c", 1),
        ("b c d e", 1),
        ("e d", 1),
        ("c b a", 2),
        ("e", 1),
        ("d e", 2),
        ("a a", 1),
    ];
    assert_eq!(score(&training), counted(&training, &weighted, &test));
}

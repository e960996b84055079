//! Data of one's own, and a task of one's own: the value of a number that is written in words.
//!
//! ```text
//! cargo run --release -p polyglow-examples --example custom_data -- runs/numbers
//! ```
//!
//! What follows the run overrides its config, as `train.max_steps=300`.
//!
//! A task says where its batches are from, how they come to the device and what their loss is; the
//! loop, its checkpoints and the resuming are the same as of all others.
#![expect(clippy::print_stdout, reason = "an example shows what it finds")]

use std::env;
use std::error::Error;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use polyglow_data::batching::{BatchingConfig, EpochPlan};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::padded::Padded;
use polyglow_data::pair::Pair;
use polyglow_data::sources::BatchSource;
use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_model::embedding::Embedding;
use polyglow_model::init::ParamInit;
use polyglow_model::linear::Linear;
use polyglow_model::mask::padding_mask;
use polyglow_predict::device::upload_rows;
use polyglow_predict::model::load_weights;
use polyglow_train::tasks::{BatchSize, Loss};
use polyglow_train::train::Text;
use polyglow_train::workload::BatchShape;
use polyglow_train::{Config, Silent, Stop, Task, Training};

const CONFIG: &str = r#"
    tokenizer = { kind = "word" }
    train = { max_steps = 1500, lr = 1e-2, schedule = "linear", warmup_steps = 10, max_tokens = 60 }
"#;
const TENS: [&str; 8] = [
    "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
];
const ONES: [&str; 9] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
];
const WIDTH: usize = 8;

/// Any iterator of pairs is a corpus.
fn pairs() -> impl Iterator<Item = Pair> {
    let pair = |ten: usize, one: usize| Pair {
        src: format!("{} {}", TENS[ten], ONES[one]),
        tgt: (10 * (ten + 2) + one + 1).to_string(),
    };
    (0..TENS.len()).flat_map(move |ten| (0..ONES.len()).map(move |one| pair(ten, one)))
}

/// Whether a pair is not trained on.
fn is_held_out(pair: &Pair) -> bool {
    ["42", "67", "95"].contains(&pair.tgt.as_str())
}

/// Where batches are from: ids with a value each.
struct Numbers {
    examples: Vec<(Vec<u32>, f32)>,
    tokenizer: Arc<Tokenizer>,
    batching: BatchingConfig,
}

struct NumberBatch {
    texts: Padded,
    values: Vec<f32>,
}

impl Numbers {
    fn new(training: &Training) -> Result<Self, Box<dyn Error>> {
        let tokenizer = Arc::clone(&training.tokenizers.src);
        let example = |pair: Result<Pair, DataError>| -> Result<_, Box<dyn Error>> {
            let Pair { src, tgt } = pair?;
            Ok((tokenizer.encode(&src)?, tgt.parse()?))
        };
        let examples = training
            .text
            .train
            .pairs()
            .map(example)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            examples,
            tokenizer,
            batching: training.plan.batching(),
        })
    }

    /// Tokens with the end mark.
    fn len(&self, item: u32) -> usize {
        self.examples[item as usize].0.len() + 1
    }
}

impl BatchSource for Numbers {
    type Batch = NumberBatch;
    type Error = DataError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, DataError> {
        let all = [(0..self.examples.len() as u32, 1.0)];
        EpochPlan::new(|item| (self.len(item), 1), &all, &self.batching, epoch)
    }

    fn batch(&self, _: u64, items: &[u32]) -> Result<NumberBatch, DataError> {
        let (texts, values): (Vec<_>, Vec<_>) = items
            .iter()
            .map(|&item| self.examples[item as usize].clone())
            .unzip();
        let special = self.tokenizer.special();
        Ok(NumberBatch {
            texts: Padded::ended(&texts, special.eos, special.pad, 1),
            values,
        })
    }

    fn size(&self, _: u64, items: &[u32]) -> ([usize; 3], usize) {
        let lengths = items.iter().map(|&item| self.len(item));
        (
            [items.len(), lengths.clone().max().unwrap_or(0), 1],
            lengths.sum::<usize>() + items.len(),
        )
    }
}

/// The sum of what each word is worth.
#[derive(Module, Debug)]
struct Regressor {
    embedding: Embedding,
    output: Linear,
    pad_id: u32,
}

impl Regressor {
    fn new(tokenizers: &Tokenizers, device: &Device) -> Self {
        let (init, src) = (&mut ParamInit::new(1, device), &tokenizers.src);
        let embedding = Embedding::new(src.vocab_size(), WIDTH, init);
        Self {
            embedding,
            output: Linear::new(WIDTH, 1, init),
            pad_id: src.special().pad,
        }
    }

    /// `[batch, len]` to `[batch]`, in hundreds.
    fn values(&self, ids: Tensor<2, Int>) -> Tensor<1> {
        let ([batch, len], pads) = (ids.dims(), padding_mask(&ids, self.pad_id));
        let pads = pads.reshape([batch, len, 1]).expand([batch, len, WIDTH]);
        let sums = self
            .embedding
            .forward(ids)
            .mask_fill(pads, 0.0)
            .sum_dim(1)
            .squeeze_dim(1);
        self.output.rows(sums).squeeze_dim(1)
    }
}

/// The task: squared errors.
struct Regression(Arc<Numbers>);

impl Task for Regression {
    type Model = Regressor;
    type Source = Numbers;
    type Inputs = (Tensor<2, Int>, Tensor<1>);

    fn source(&self) -> &Arc<Numbers> {
        &self.0
    }

    fn size(&self, NumberBatch { texts, values }: &NumberBatch) -> BatchSize {
        let shape = BatchShape {
            rows: values.len(),
            src_len: texts.len,
            tgt_len: 1,
        };
        let bytes = 4 * (texts.ids.len() + values.len());
        BatchSize {
            shape,
            real_positions: texts.num_real() + values.len(),
            targets: values.len(),
            bytes,
        }
    }

    fn upload(&self, NumberBatch { texts, values }: &NumberBatch, device: &Device) -> Self::Inputs {
        (
            upload_rows(texts, device),
            Tensor::from_data(&values[..], device) / 100.0,
        )
    }

    fn loss(&self, model: &Regressor, (ids, values): Self::Inputs) -> Loss {
        Loss::new((model.values(ids) - values).square().sum())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let run = env::args().nth(1).unwrap_or("runs/numbers".to_owned());
    let corpus = Corpus::from_pairs("numbers", pairs().filter(|pair| !is_held_out(pair)));
    let overrides: Vec<String> = env::args().skip(2).collect();
    let config = Config::for_memory(CONFIG, &overrides)?;
    let training = Training::prepare_with(config, Text::new(corpus, None)?, &run, &mut Silent)?;
    let task = Regression(Arc::new(Numbers::new(&training)?));
    let new = |device: &Device| Regressor::new(&training.tokenizers, device);
    let (ending, state) = training.run_with(&task, new, &Stop::default(), &mut Silent)?;
    println!("{ending:?} after step {}", state.step);

    let device = &training.plan.device;
    let model = load_weights(new(device), training.run.weights("last")?.1)?;
    for Pair { src, tgt } in pairs().filter(is_held_out) {
        let ids = Padded::ended(
            &[training.tokenizers.src.encode(&src)?],
            training.tokenizers.src.special().eos,
            0,
            1,
        );
        let value = model.values(upload_rows(&ids, device)).into_scalar::<f32>() * 100.0;
        println!("{src} = {tgt}, found {value:.0}");
    }
    Ok(())
}

//! Architectures that a program registers.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use serde::Deserialize;

use super::*;
use crate::architecture::Predict;
use crate::embedding::Embedding;
use crate::linear::Linear;
use crate::loss::prediction::{Prediction, Projection};
use crate::parameter;

/// Labels a text by the mean of its embeddings.
#[derive(Module, Debug)]
struct Bag {
    embedding: Embedding,
    output: Linear,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BagConfig {
    width: Option<usize>,
    scale: f64,
}

impl Predict<Text> for Bag {
    fn predict(&self, text: Text) -> Prediction<'_> {
        let states: Tensor<3> = self.embedding.forward(text.ids);
        Projection::Own(&self.output).project(states.mean_dim(1).squeeze_dim(1))
    }
}

impl Inspect for Bag {
    type Inputs = Text;
}

impl Architecture for Bag {
    type Config = BagConfig;
    const TASK: Task = Task::Labels;

    fn new(config: &BagConfig, vocabulary: &Vocabulary, init: &mut ParamInit) -> Self {
        let width = Self::d_model(config);
        Self {
            embedding: Embedding::new(vocabulary.src_size, width, init),
            output: Linear::new(width, vocabulary.tgt_size, init),
        }
    }

    fn d_model(config: &BagConfig) -> usize {
        config.width.unwrap_or(4)
    }
}

const VOCABULARY: Vocabulary = Vocabulary {
    src_size: 5,
    tgt_size: 3,
    shared: false,
    src_pad_id: 0,
    tgt_pad_id: 0,
    max_len: 8,
    image: None,
};

fn config(json: &str) -> Result<ModelConfig, String> {
    register_reader::<Bag>("bag").expect("the same may be registered again");
    serde_json::from_str(json).map_err(|error: serde_json::Error| error.to_string())
}

#[test]
fn settings_without_a_value_are_left_out_and_all_others_are_filled_in() {
    let config = config(r#"{"arch": "bag", "bag": {}}"#).unwrap();
    let written = serde_json::to_string(&config).unwrap();
    assert_eq!(written, r#"{"arch":"bag","bag":{"scale":0.0}}"#);
    assert_eq!(config.resolve(), config);
    let again: ModelConfig = serde_json::from_str(&written).unwrap();
    assert_eq!((&again, again.width()), (&config, 4));
}

#[test]
fn what_is_wrong_in_a_table_is_named_by_its_key() {
    for (json, expected) in [
        (
            r#"{"arch": "bag", "bag": {"width": "a"}}"#,
            "`model.bag.width`: invalid type: string \"a\"",
        ),
        (
            r#"{"arch": "bag", "bag": {"height": 1}}"#,
            "`model.bag.height`: unknown field `height`",
        ),
        (
            r#"{"arch": "bag", "bag": {"scale": null}}"#,
            "`model.bag`: a number is not finite",
        ),
        (
            r#"{"arch": "bag", "bag": {}, "bag": {}}"#,
            "`[model.bag]` and `[model.bag]`: a model has one architecture",
        ),
        (
            r#"{"arch": "rnn", "bag": {}}"#,
            "`[model.bag]` belongs to `model.arch = \"bag\"`",
        ),
    ] {
        let error = config(json).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_hidden_model_is_named_frozen_and_replaced_by_its_parameters() {
    let device = Device::flex();
    let shape = config(r#"{"arch": "bag"}"#).unwrap().shape(VOCABULARY);
    let model = shape.unwrap().init(1, &device);
    let names: Vec<String> = parameter::read(&model)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["embedding.weight", "output.weight", "output.bias"]);
    assert_eq!(parameter::count(&model), 5 * 4 + 4 * 3 + 3);
    let zeros = |_: &str, shape: &[usize]| {
        Ok::<_, String>(burn::tensor::TensorData::zeros::<f32, _>(shape.to_vec()))
    };
    let model = parameter::replace(model, zeros).unwrap();
    let ids = Tensor::from_data([[1, 2]], &device);
    let logits = model.predict(Text { ids }).logits();
    let values: Vec<f32> = logits.into_data().iter::<f32>().collect();
    assert!(values.iter().all(|value| *value == 0.0) && values.len() == 3);
    assert_eq!(model.devices(), vec![device]);
}

#[test]
fn a_model_that_does_not_suit_its_task_is_not_registered() {
    // A bag that says of itself that it has another task.
    macro_rules! lying {
        ($name:ident, $task:expr) => {
            #[derive(Module, Debug)]
            struct $name {
                bag: Bag,
            }

            impl Predict<Text> for $name {
                fn predict(&self, text: Text) -> Prediction<'_> {
                    self.bag.predict(text)
                }
            }

            impl Inspect for $name {
                type Inputs = Text;
            }

            impl Architecture for $name {
                type Config = BagConfig;
                const TASK: Task = $task;

                fn new(config: &BagConfig, vocabulary: &Vocabulary, init: &mut ParamInit) -> Self {
                    Self {
                        bag: Bag::new(config, vocabulary, init),
                    }
                }

                fn d_model(config: &BagConfig) -> usize {
                    Bag::d_model(config)
                }
            }
        };
    }

    lying!(Writer, Task::Language);
    lying!(Painter, Task::Images);
    let error = register_reader::<Writer>("writer").unwrap_err().to_string();
    assert!(error.contains("models of its task write text"), "{error}");
    let error = register_reader::<Painter>("painter").unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("do not read the inputs of the task Images"),
        "{error}"
    );
}

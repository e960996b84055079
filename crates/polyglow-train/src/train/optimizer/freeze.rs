//! `train.freeze`: parameters that are not trained.

use burn::module::Module;
use polyglow_model::parameter;
use polyglow_predict::error::{Result, TrainError, failed, usage, with_hint};

use super::parameters;

/// Freezes the parameters whose names are, or begin with, one of `names`.
///
/// # Errors
/// A name is that of no parameter, or all parameters are frozen (exit code 2).
pub(in crate::train) fn freeze<M: Module>(model: M, names: &[String]) -> Result<M> {
    if names.is_empty() {
        return Ok(model);
    }
    let all: Vec<String> = parameters(&model)
        .into_iter()
        .map(|parameter| parameter.name)
        .collect();
    let unknown = names
        .iter()
        .find(|name| !all.iter().any(|parameter| is_within(parameter, name)));
    if let Some(name) = unknown {
        return Err(no_such_parameter(name, &all));
    }
    if all.iter().all(|parameter| is_frozen(parameter, names)) {
        return Err(usage(failed!(
            "`train.freeze` freezes every parameter: nothing would be trained"
        )));
    }
    Ok(parameter::freeze(model, |parameter| {
        is_frozen(parameter, names)
    }))
}

/// Returns whether a parameter is called `name`, or lies in a module of that name.
fn is_within(parameter: &str, name: &str) -> bool {
    parameter
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn is_frozen(parameter: &str, names: &[String]) -> bool {
    names.iter().any(|name| is_within(parameter, name))
}

fn no_such_parameter(name: &str, all: &[String]) -> TrainError {
    let mut known: Vec<&str> = all
        .iter()
        .map(|parameter| parameter.split('.').next().unwrap_or_default())
        .collect();
    known.dedup();
    let error = usage(failed!(
        "`train.freeze` names `{name}`, and the model has no parameter of that name"
    ));
    with_hint(error, format!("names begin with {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use burn::module::Param;
    use burn::tensor::{Device, Tensor};

    use super::*;

    #[derive(Module, Debug)]
    struct Two {
        first: Param<Tensor<1>>,
        first_bias: Param<Tensor<1>>,
    }

    #[test]
    fn names_are_whole_or_end_at_a_point_and_something_is_left() {
        let device = Device::flex().autodiff();
        let value = || Param::from_tensor(Tensor::<1>::ones([1], &device));
        let two = || Two {
            first: value(),
            first_bias: value(),
        };
        let named = |names: &[&str]| {
            freeze(
                two(),
                &names
                    .iter()
                    .map(|&name| name.to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let frozen = named(&["first"]).expect("there is one");
        assert!(!frozen.first.is_require_grad() && frozen.first_bias.is_require_grad());
        let error = named(&["fir"]).expect_err("there is none");
        assert!(
            error.to_string().contains("names `fir`")
                && error.hint().is_some_and(|hint| hint.contains("first_bias"))
        );
        assert!(
            named(&["first", "first_bias"])
                .expect_err("nothing is left")
                .to_string()
                .contains("every parameter")
        );
    }
}

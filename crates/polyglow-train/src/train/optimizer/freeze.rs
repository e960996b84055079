//! `train.freeze`: parameters that stay as they are.

use burn::module::Module;
use polyglow_model::parameter;
use polyglow_predict::error::{Result, failed, usage, with_hint};

use super::parameters;

/// Freezes the parameters whose names are, or begin with, one of `names`.
///
/// # Errors
/// A name is that of no parameter, or all parameters are frozen (exit code 2).
pub(in crate::train) fn freeze<M: Module>(model: M, names: &[String]) -> Result<M> {
    if names.is_empty() {
        return Ok(model);
    }
    let is_of = |parameter: &str, name: &str| {
        parameter
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let all: Vec<String> = parameters(&model)
        .into_iter()
        .map(|parameter| parameter.name)
        .collect();
    if let Some(name) = names
        .iter()
        .find(|name| !all.iter().any(|parameter| is_of(parameter, name)))
    {
        let mut known: Vec<&str> = all
            .iter()
            .map(|parameter| parameter.split('.').next().unwrap_or_default())
            .collect();
        known.dedup();
        let error = usage(failed!(
            "`train.freeze` names `{name}`, and the model has no parameter of that name"
        ));
        return Err(with_hint(
            error,
            format!("names begin with {}", known.join(", ")),
        ));
    }
    let is_frozen = |parameter: &str| names.iter().any(|name| is_of(parameter, name));
    if all.iter().all(|parameter| is_frozen(parameter)) {
        return Err(usage(failed!(
            "`train.freeze` freezes every parameter: nothing would be trained"
        )));
    }
    Ok(parameter::freeze(model, is_frozen))
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

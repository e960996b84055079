//! Burn's visitors and mappers without their types, for models whose type is hidden.
//!
//! The methods of Burn's traits are generic over the rank of a tensor, which those of a trait
//! object cannot be. Here the rank is an argument, and a parameter travels as [`Any`].

use std::any::Any;

use burn::module::{Flag, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Bool, Int, Tensor};

/// The kind of a parameter's elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Float,
    Int,
    Bool,
}

/// Evaluates an expression in which `$rank` is a constant.
macro_rules! at_rank {
    ($value:expr, $rank:ident => $body:expr) => {
        match $value {
            1 => {
                const $rank: usize = 1;
                $body
            }
            2 => {
                const $rank: usize = 2;
                $body
            }
            3 => {
                const $rank: usize = 3;
                $body
            }
            4 => {
                const $rank: usize = 4;
                $body
            }
            5 => {
                const $rank: usize = 5;
                $body
            }
            6 => {
                const $rank: usize = 6;
                $body
            }
            rank => panic!("a parameter has {rank} axes; those of 1 to 6 are supported"),
        }
    };
}

/// A parameter comes back as the type that it was sent as.
const SAME_TYPE: &str = "a parameter keeps its kind and its rank";

/// A visitor whose type is hidden.
pub(super) trait AnyVisitor {
    fn enter(&mut self, name: &str, container: &str);
    fn exit(&mut self, name: &str, container: &str);
    /// Visits a `Param` of a tensor of this kind and rank.
    fn parameter(&mut self, kind: Kind, rank: usize, parameter: &dyn Any);
    fn flag(&mut self, flag: &Param<Flag>);
}

impl<V: ModuleVisitor> AnyVisitor for V {
    fn enter(&mut self, name: &str, container: &str) {
        self.enter_module(name, container);
    }

    fn exit(&mut self, name: &str, container: &str) {
        self.exit_module(name, container);
    }

    fn parameter(&mut self, kind: Kind, rank: usize, parameter: &dyn Any) {
        at_rank!(rank, D => match kind {
            Kind::Float => {
                self.visit_float::<D>(parameter.downcast_ref().expect(SAME_TYPE));
            }
            Kind::Int => self.visit_int::<D>(parameter.downcast_ref().expect(SAME_TYPE)),
            Kind::Bool => {
                self.visit_bool::<D>(parameter.downcast_ref().expect(SAME_TYPE));
            }
        });
    }

    fn flag(&mut self, flag: &Param<Flag>) {
        self.visit_flag(flag);
    }
}

/// Visits a model of a known type for a visitor of a hidden one.
pub(super) struct Visitor<'a>(pub &'a mut dyn AnyVisitor);

impl ModuleVisitor for Visitor<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.0.enter(name, container);
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        self.0.exit(name, container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.parameter(Kind::Float, D, param);
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.0.parameter(Kind::Int, D, param);
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        self.0.parameter(Kind::Bool, D, param);
    }

    fn visit_flag(&mut self, flag: &Param<Flag>) {
        self.0.flag(flag);
    }
}

/// A mapper whose type is hidden.
pub(super) trait AnyMapper {
    fn enter(&mut self, name: &str, container: &str);
    fn exit(&mut self, name: &str, container: &str);
    /// Maps a `Param` of a tensor of this kind and rank to one of the same type.
    fn parameter(&mut self, kind: Kind, rank: usize, parameter: Box<dyn Any>) -> Box<dyn Any>;
    fn flag(&mut self, flag: Param<Flag>) -> Param<Flag>;
}

impl<M: ModuleMapper> AnyMapper for M {
    fn enter(&mut self, name: &str, container: &str) {
        self.enter_module(name, container);
    }

    fn exit(&mut self, name: &str, container: &str) {
        self.exit_module(name, container);
    }

    fn parameter(&mut self, kind: Kind, rank: usize, parameter: Box<dyn Any>) -> Box<dyn Any> {
        at_rank!(rank, D => match kind {
            Kind::Float => Box::new(self.map_float::<D>(unboxed(parameter))),
            Kind::Int => Box::new(self.map_int::<D>(unboxed(parameter))),
            Kind::Bool => Box::new(self.map_bool::<D>(unboxed(parameter))),
        })
    }

    fn flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        self.map_flag(flag)
    }
}

/// Maps a model of a known type for a mapper of a hidden one.
pub(super) struct Mapper<'a>(pub &'a mut dyn AnyMapper);

impl ModuleMapper for Mapper<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.0.enter(name, container);
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        self.0.exit(name, container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        unboxed(self.0.parameter(Kind::Float, D, Box::new(param)))
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        unboxed(self.0.parameter(Kind::Int, D, Box::new(param)))
    }

    fn map_bool<const D: usize>(
        &mut self,
        param: Param<Tensor<D, Bool>>,
    ) -> Param<Tensor<D, Bool>> {
        unboxed(self.0.parameter(Kind::Bool, D, Box::new(param)))
    }

    fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        self.0.flag(flag)
    }
}

fn unboxed<P: 'static>(parameter: Box<dyn Any>) -> P {
    *parameter.downcast().expect(SAME_TYPE)
}

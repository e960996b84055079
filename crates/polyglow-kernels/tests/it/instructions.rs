//! Which instructions the kernels are compiled for, where that is known from outside.

use std::env;

use polyglow_kernels::instruction_set;

#[test]
#[ignore = "needs to be told what the CPU has"]
fn the_instructions_are_those_that_the_environment_names() {
    let named = env::var("POLYGLOW_INSTRUCTIONS").expect("POLYGLOW_INSTRUCTIONS is set");
    assert_eq!(instruction_set(), Some(named.as_str()));
}

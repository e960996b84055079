//! Whether kernels use the instructions that the environment says the CPU has.

use std::env;

use polyglow_kernels::instruction_set;

#[test]
#[ignore = "needs POLYGLOW_INSTRUCTIONS"]
fn the_instructions_are_those_that_the_environment_names() {
    let named = env::var("POLYGLOW_INSTRUCTIONS").expect("POLYGLOW_INSTRUCTIONS is set");
    assert_eq!(instruction_set(), Some(named.as_str()));
}

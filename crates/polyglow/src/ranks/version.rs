//! The version of the program that each rank runs.

/// The version of this process: `0.1.0`, with the commit of a release.
pub(super) fn own() -> String {
    let commit = option_env!("POLYGLOW_COMMIT")
        .map(|commit| format!(" ({commit})"))
        .unwrap_or_default();
    format!("{}{commit}", env!("CARGO_PKG_VERSION"))
}

/// Says which ranks run another version than rank 0; none if all run one. `versions` and `hosts`
/// have one entry a rank.
pub(super) fn others(versions: &[String], hosts: &[String]) -> Option<String> {
    let first = versions.first()?;
    let others = versions
        .iter()
        .zip(hosts)
        .enumerate()
        .filter(|(_, (version, _))| *version != first);
    let others: Vec<String> = others
        .map(|(rank, (version, host))| format!("rank {rank} on {host} runs polyglow {version}"))
        .collect();
    (!others.is_empty()).then(|| format!("{}, and rank 0 polyglow {first}", others.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_named_with_its_rank_and_machine() {
        let texts = |texts: [&str; 3]| texts.map(str::to_owned);
        let hosts = texts(["a", "a", "b"]);
        assert_eq!(others(&texts(["0.1.0", "0.1.0", "0.1.0"]), &hosts), None);
        assert_eq!(
            others(&texts(["0.1.0", "0.1.0", "0.1.1 (1a2b3c)"]), &hosts).as_deref(),
            Some("rank 2 on b runs polyglow 0.1.1 (1a2b3c), and rank 0 polyglow 0.1.0")
        );
    }
}

//! Where GPU kernels that were tuned and compiled once are kept for the next process.

/// Puts the kernels of CubeCL, Burn's way to GPUs, into `polyglow` in the user's cache directory: `$XDG_CACHE_HOME`, or
/// `~/.cache`. By itself CubeCL would look for the `target` directory of a Cargo workspace first.
///
/// A `cubecl.toml` or `burn.toml` that names another directory is kept to, and so are CubeCL's environment variables.
/// Where nothing can be written, CubeCL keeps its kernels in memory. To be called before the first device is looked for;
/// later it does nothing.
pub(crate) fn locate() {
    #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "metal", feature = "cuda", feature = "rocm"))]
    {
        use burn::cubecl::config::cache::CacheConfig;
        use burn::cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};

        let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
        if matches!(config.environment.path, CacheConfig::Target) {
            config.environment.path = CacheConfig::Directory(CacheConfig::Global.root().with_file_name("polyglow"));
            config.compilation.cache = true;
        }
        CubeClRuntimeConfig::try_set(config);
    }
}

//! The cache of tuned and compiled GPU kernels.

/// Keeps the kernels of CubeCL, the GPU runtime of Burn, in `polyglow` in the user's cache
/// directory: `$XDG_CACHE_HOME`, or `~/.cache`. By default CubeCL would first look for the `target`
/// directory of a Cargo workspace.
///
/// Another directory in `cubecl.toml`, `burn.toml` or CubeCL's environment variables takes
/// precedence. If the directory is not writable, CubeCL keeps its kernels in memory. Call it before
/// the first device is opened; later it has no effect.
pub(crate) fn locate() {
    #[cfg(any(
        feature = "wgpu",
        feature = "vulkan",
        feature = "metal",
        feature = "cuda",
        feature = "rocm"
    ))]
    {
        use burn::cubecl::config::cache::CacheConfig;
        use burn::cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};

        let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
        if matches!(config.environment.path, CacheConfig::Target) {
            config.environment.path =
                CacheConfig::Directory(CacheConfig::Global.root().with_file_name("polyglow"));
            config.compilation.cache = true;
        }
        CubeClRuntimeConfig::try_set(config);
    }
}

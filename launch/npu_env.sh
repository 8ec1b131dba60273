# Source me:   . launch/npu_env.sh
# Loads the environment of CANN and of NNAL where they are installed; without them does nothing and says nothing.
# ASCEND_INSTALL_PATH names an unusual place. What is loaded already is not loaded again.

_mindlab_source_first() {
    local script
    for script in "$@"; do
        if [ -r "$script" ]; then
            set --  # the vendor's script must not read our arguments
            # shellcheck disable=SC1090
            . "$script" || echo "npu_env: $script ended with code $?" >&2
            return 0
        fi
    done
}

_mindlab_npu_env() {
    local place="${ASCEND_INSTALL_PATH:-/usr/local/Ascend}" own="${HOME:-}/Ascend"
    if [ -z "${ASCEND_HOME_PATH:-}${ASCEND_TOOLKIT_HOME:-}" ]; then
        _mindlab_source_first "$place/ascend-toolkit/set_env.sh" "$place/cann/set_env.sh" "$place/set_env.sh" \
            "$own/ascend-toolkit/set_env.sh" "$own/cann/set_env.sh"
    fi
    if [ -z "${ATB_HOME_PATH:-}" ]; then
        _mindlab_source_first "$place/nnal/atb/set_env.sh" "$own/nnal/atb/set_env.sh"
    fi
}

# The vendor's scripts read unset variables and ignore failing commands: -e and -u are off while they run.
_mindlab_flags="$-"
set +eu
_mindlab_npu_env
case "$_mindlab_flags" in *e*) set -e ;; esac
case "$_mindlab_flags" in *u*) set -u ;; esac
unset _mindlab_flags
unset -f _mindlab_npu_env _mindlab_source_first

#!/usr/bin/env bash
# Sets up, executes every chapter on 4 ranks, makes the site of them and says where to look.
#
#   bash launch/run.sh                      all chapters, 4 ranks: a few minutes
#   bash launch/run.sh 00 01                these two
#   bash launch/run.sh 01 -p ranks=8        what follows goes to `mindlab run`
#
# Exit code 0: every check of every chapter passed. What it makes lies under build/, and .venv.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

started="$SECONDS"
mindlab_setup lab docs
mindlab_stay_inside
. "$MINDLAB_ROOT/launch/npu_env.sh"
cd "$MINDLAB_ROOT"
echo "set-up took $((SECONDS - started)) s"

ranks=(-p ranks=4)
for argument in "$@"; do
    case "$argument" in ranks=*) ranks=() ;; esac
done

status=0
.venv/bin/mindlab run ${ranks[@]+"${ranks[@]}"} --out build/run "$@" || status=$?
.venv/bin/mindlab export --to site --from build/run --out build/site || [ "$status" -ne 0 ] || status=$?

echo
echo "report      $MINDLAB_ROOT/build/run/report.html"
echo "site        $MINDLAB_ROOT/build/site/index.html"
echo "next        bash launch/lab.sh    opens the chapters"
if [ "$status" -ne 0 ]; then echo "FAILED with code $status: the report says which chapter and why"; fi
exit "$status"

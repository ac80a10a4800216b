# The tasks of the repository. `make` alone lists them.

CARGO ?= cargo
# Black-box tests mostly wait, for the control plane or for one of their own: more of them at a time than there are cores.
TEST_THREADS ?= 12
FUZZ_SECONDS ?= 600
# How many objects tests make that are about many: a fifth of what SCALE=full makes.
SCALE ?=
HISTORIES ?= 100000
# The first of them, in a minute and a half; all of them are for releases.
TEST_HISTORIES ?= 5000
MINUTES ?= 60

.PHONY: help build test oracle faults upgrade churn matrix e2e simulate mutants lint generate demo release bench fuzz controlplane

help: ## List the tasks.
	@awk -F':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the release binaries: the controller and the kubectl plugin.
	$(CARGO) build --release --locked --bin sluice --bin kubectl-sluice

# The first build of the control plane takes minutes, mostly in Go: the tests build meanwhile. The first line has the
# whole workspace and an example in it, by which cargo gives dependencies the features that tests have: otherwise it
# compiles most of them twice (https://doc.rust-lang.org/cargo/reference/resolver.html#feature-resolver-version-2).
test: ## Run the tests, black-box tests against a real control plane included.
	$(CARGO) build --locked --workspace --bin sluice-testbed --example gate_controller
	@"$${CARGO_TARGET_DIR:-target}/debug/sluice-testbed" build & controlplane=$$!; \
		$(CARGO) test --locked --workspace --no-run; built=$$?; \
		wait $$controlplane && exit $$built
	HISTORIES=$(TEST_HISTORIES) RUST_TEST_THREADS=$(TEST_THREADS) SCALE=$(SCALE) \
		$(CARGO) test --locked --workspace --no-fail-fast

# Always the same histories: PROPTEST_RNG_SEED=N draws others.
oracle: ## Compare the engine with its oracle in HISTORIES random histories, in an optimised build.
	HISTORIES=$(HISTORIES) $(CARGO) test --locked --profile oracle -p sluice-engine --test it histories::random::

# What it is about is in docs/faults.md. SEED=N begins there, and plays random rounds only.
faults: ## Rounds of faults for MINUTES, with every revision of etcd checked.
	FAULTS_MINUTES=$(MINUTES) FAULTS_SEED=$(SEED) $(CARGO) test --locked --workspace --test faults -- \
		--nocapture --test-threads=1 $(if $(SEED),random_faults)

# FROM names a tag or a commit; without it the last tag counts. What is checked is in docs/faults.md.
upgrade: ## Upgrade from FROM under load, and downgrade again, with every revision of etcd checked.
	FROM="$(FROM)" tests/upgrade.sh

# A test of `make test` that goes on for longer.
churn: ## Let work come and go for MINUTES, and see that `kubectl diff` of the shipped manifests stays empty.
	CHURN_MINUTES=$(MINUTES) $(CARGO) test --locked --workspace --test it -- \
		--nocapture installation::gitops::what_is_applied_again_is_unchanged

# Each version is built first, once: ten minutes on two cores. What was run is in docs/installing.md.
matrix: ## Run black-box tests on the Kubernetes versions MATRIX="1.33 1.36".
	MATRIX="$(MATRIX)" tests/matrix.sh

# What it needs is in the first lines of the script. KEEP=1 keeps its logs.
e2e: ## Run real containers behind gates on a real node: kubelet, containerd and runc (needs root).
	$(CARGO) build --locked --bin sluice --bin kubectl-sluice --bin sluice-testbed
	@KEEP="$(KEEP)" tests/e2e/run.sh

# What it plays is in docs/simulation.md. TRACE=FILE writes the whole history of one seed.
simulate: ## Play SEEDS seeds of the simulation from SEED on, in an optimised build.
	SEEDS=$(or $(SEEDS),1000) SEED=$(or $(SEED),1) $(CARGO) test --locked --profile oracle \
		-p sluice-simulation --test seeds -- --nocapture --exact seeds

# Which there are is in tests/mutants/src. MUTANT=WORDS plants those that are about WORDS, or in a file of that name.
mutants: ## See whether the tests find planted faults, one after the other (hours).
	MUTANT="$(MUTANT)" $(CARGO) test --locked -p sluice-mutants -- --ignored --nocapture

lint: ## Formatting, clippy, documentation, and what dependencies may be.
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@# The other cryptography, which no test has.
	$(CARGO) check --locked -p sluice --no-default-features --features aws-lc-rs
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --lib --bins --examples --no-deps \
		--document-private-items
	$(CARGO) deny --locked --workspace check bans licenses sources
	@# The advisory database is fetched from the network, and only what was fetched can fail.
	@if $(CARGO) deny fetch db >/dev/null 2>&1; then \
		$(CARGO) deny --locked --workspace check --disable-fetch advisories; \
	else \
		echo "lint: the advisory database can't be fetched; advisories were not checked" >&2; \
	fi

generate: ## Write the CRDs, webhook configurations, policies and reference pages anew from their types.
	UPDATE_GENERATED=1 $(CARGO) test --quiet -p sluice-crds --test generated
	UPDATE_GENERATED=1 $(CARGO) test --quiet -p sluice-webhooks -- manifests policies
	UPDATE_GENERATED=1 $(CARGO) test --quiet --workspace --lib -- reference:: the_page_of_metrics

controlplane: ## Build the control plane of the tests (once; about ten minutes on two cores).
	$(CARGO) run --quiet -p sluice-testbed -- build

# CONTEXT=NAME tells it on the cluster of that context of your kubeconfig, and takes everything away at the end.
demo: ## Tell the story of a few jobs on a throwaway cluster; KEEP=1 leaves it up.
	$(CARGO) build --locked --bin sluice $(if $(CONTEXT),,--bin sluice-testbed)
	@KEEP="$(KEEP)" CONTEXT="$(CONTEXT)" WEBHOOKS="$(WEBHOOKS)" tests/demo.sh

# What it makes and how that is published is in docs/releasing.md. It publishes nothing.
release: ## Make image, manifests, charts, plugin and SBOM of VERSION in target/release-artifacts.
	VERSION="$(VERSION)" DRY="$(DRY)" release/build.sh

bench: ## Measure the engine's decisions, and the controller on a real control plane.
	$(CARGO) bench --locked -p sluice-engine --bench decide --bench memory
	$(CARGO) bench --locked -p sluice-kinds --bench read
	$(CARGO) bench --locked -p sluice --bench cluster
	$(CARGO) bench --locked -p sluice --bench waiting
	$(CARGO) bench --locked -p sluice --bench readers
	$(CARGO) bench --locked -p sluice --bench kinds
	$(CARGO) bench --locked -p sluice --bench pods
	$(CARGO) bench --locked -p sluice --bench gates

# The corpus is replayed by `make test`; this looks for more. A find stays in engine/fuzz/corpus.
fuzz: ## Fuzz events and quantities, FUZZ_SECONDS each; needs a nightly compiler and cargo-fuzz.
	@rustup run nightly rustc --version >/dev/null 2>&1 || \
		{ echo "fuzz: needs a nightly compiler: rustup toolchain install nightly" >&2; exit 1; }
	@command -v cargo-fuzz >/dev/null || \
		{ echo "fuzz: needs cargo-fuzz: cargo install --locked cargo-fuzz" >&2; exit 1; }
	cd engine && cargo +nightly fuzz run --sanitizer none events -- \
		-max_total_time=$(FUZZ_SECONDS) -timeout=20 -max_len=1200 -len_control=0
	cd engine && cargo +nightly fuzz run --sanitizer none quantities -- \
		-max_total_time=$(FUZZ_SECONDS) -timeout=10 -max_len=64

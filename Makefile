# What operators and developers type. `make help` lists it.
#
# Two cores are enough, and more jobs than that need more memory than a small machine has: JOBS=8 where there is more.
JOBS ?= 2
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
DESTDIR ?=
CARGO ?= cargo
export CARGO_TARGET_DIR ?= $(CURDIR)/target

TARGET := $(CARGO_TARGET_DIR)
RELEASE := $(TARGET)/release
# What is installed.
MUSTER ?= $(RELEASE)/muster
CONTROLLER ?= $(RELEASE)/muster-controller
AGENT ?= $(TARGET)/dist/muster-agent
# Its man pages and completion scripts.
DOCUMENTS ?= $(TARGET)/documents
# The oldest glibc that packages run with: RHEL 8's. Debian 11 has 2.31, RHEL 9 2.34.
GLIBC ?= 2.28
# For which the packages are: x86_64 or aarch64. Programs for the other one than this machine's are cross-built.
ARCH ?= $(shell uname -m)
CROSS := $(filter-out $(shell uname -m),$(ARCH))
PACKAGES := $(TARGET)/packages$(addprefix -,$(CROSS))
CARGO_BUILD := $(CARGO) build --locked -j$(JOBS)
UNITS := muster-controller.service muster-agent.service muster-network.service
PROGRAMS := muster muster-controller muster-agent
SCENARIOS := $(wildcard tests/scenarios/*.json)
RECORDED := $(wildcard ../shared/samples/scenarios/*.json)
SCRIPTS := .ci/run .ci/packages packaging/demo packaging/documents packaging/emulated packaging/lint packaging/packages packaging/portable packaging/reproducible tests/mutations/run tests/net-import/record $(wildcard tests/bench/*.sh tests/testbed/*-server) tests/bench/common.bash tests/testbed/common.bash
NEXTEST := $(shell command -v cargo-nextest 2>/dev/null)
DENY := $(shell command -v cargo-deny 2>/dev/null)
# With a nightly toolchain and cargo-fuzz: how long each target is fuzzed.
FUZZ_SECONDS ?= 10
# With QUICK=1 the packages' programs are compiled without optimisation: that shows that the packages can be made and
# which glibc they need, in a third of the time.
UNOPTIMISED := CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 AGENT_PROFILE=release

# Clippy checks the sources; or its driver compiles them and lints what it compiles, so that one build of CI is linted and
# tested (docs/decisions/0043-clippy-compiles.md).
CLIPPY ?= checks
ifeq ($(CLIPPY),compiles)
export RUSTC_WORKSPACE_WRAPPER := clippy-driver
# What `cargo clippy -- -D warnings` hands to the driver.
export CLIPPY_ARGS := -D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
else ifneq ($(CLIPPY),checks)
$(error CLIPPY=$(CLIPPY): want checks or compiles)
endif

# Tests run over the controller's embedded broker as well, which what is installed does not have.
TESTED := --features muster-tests/embedded
# A broker of rmqtt for tests, which is no part of the workspace.
RMQTTD = env -u RUSTC_WORKSPACE_WRAPPER CARGO_TARGET_DIR='$(TARGET)/rmqttd' $(CARGO_BUILD) --manifest-path tests/rmqttd/Cargo.toml
# An OpenID provider for tests: pinned packages of npm.
OIDC_PROVIDER = install -D -t '$(TARGET)/oidc-provider' tests/oidc-provider/*.js* && \
  timeout 300 npm ci --prefix '$(TARGET)/oidc-provider' --ignore-scripts --no-audit --no-fund >/dev/null
# Builds all tests, and with them the programs that they start. Built alone, those would have other features, and everything
# below them would be built twice.
TESTS = $(CARGO) test --locked --workspace $(TESTED) -j$(JOBS) --no-run
# Links besides the direct one over which tests are run as well: a few with `make test`, all that need no link of their own
# with `make soak`.
LINKS := mosquitto embedded rmqtt
OVER_LINKS := main_path:: joining:: content::
# over_links FILTERS. All of the workspace is named, here and in lint: crates of the tests alone would be built once more, for
# they have other features then.
over_links = for link in $(LINKS); do echo "over $$link"; MUSTER_TEST_LINK=$$link $(CARGO) test --locked --workspace $(TESTED) \
  -j$(JOBS) --test processes -- --test-threads=4 $(1) || exit 1; done

.PHONY: help build agent test lint fuzz demo clean-demo bench mutations soak packages reproducible lint-packages install uninstall

help:
	@echo 'make demo      builds, and shows three servers being configured (root; asks apt for what is missing)'
	@echo 'make test      every test (root; asks apt for what is missing)'
	@echo 'make lint      formatting, clippy, dependencies, shell scripts'
	@echo 'make build     controller, command line and agent, as they are installed'
	@echo 'make agent     the small agent: target/dist/muster-agent'
	@echo 'make packages  deb and rpm of agent, controller and command line, for glibc $(GLIBC) and newer: target/packages/ (QUICK=1: not optimised; ARCH=aarch64: cross-built, target/packages-aarch64/)'
	@echo 'make reproducible  builds the packages twice, at different places, and compares them'
	@echo 'make lint-packages  lintian and rpmlint over target/packages/'
	@echo 'make install   what build made, with units and default configuration (DESTDIR, PREFIX, SYSCONFDIR)'
	@echo 'make bench     speed and size: lines of JSON, and docs/benchmarks.md with its plot (root; an hour)'
	@echo 'make mutations  what a programmer may get wrong, and whether the simulator or a test sees it (long)'
	@echo 'make soak      fuzz; every environment of TripleO; the kill tests, and servers that are cut off, 20 times each; restarts of a switch, 100; a rollout to 200 agents; failovers of controllers and their database, 20 times each; the tests over each broker; packages for aarch64; a reproducible agent'
	@echo 'make fuzz      fuzz targets, $(FUZZ_SECONDS) seconds each (nightly and cargo-fuzz; without them make test has their corpus)'
	@echo 'make clean-demo   ends a demo that was kept with DEMO_KEEP=1'

build: agent
	@.ci/packages build
	$(CARGO_BUILD) --release -p muster-controller -p muster-cli
	@packaging/documents '$(DOCUMENTS)' '$(RELEASE)/muster' '$(RELEASE)/muster-controller' '$(TARGET)/dist/muster-agent'

agent:
	@.ci/packages build
	$(CARGO_BUILD) --profile dist -p muster-agent
	@ls -l '$(TARGET)/dist/muster-agent'

# The runner's own closing line comes last.
test:
	@[ "$$(id -u)" = 0 ] || { echo 'make test needs root: its servers are network namespaces' >&2; exit 1; }
	@.ci/packages test
	$(RMQTTD)
	$(OIDC_PROVIDER)
	$(TESTS)
	'$(TARGET)/debug/muster-sim' scenario $(SCENARIOS)
ifneq ($(RECORDED),)
	'$(TARGET)/debug/muster-sim' scenario $(RECORDED)
endif
	$(call over_links,$(OVER_LINKS))
ifneq ($(NEXTEST),)
	$(CARGO) nextest run --locked --workspace $(TESTED) --build-jobs $(JOBS)
else
	$(CARGO) test --locked --workspace $(TESTED) -j$(JOBS) --no-fail-fast
endif

lint:
	@.ci/packages lint
	$(CARGO) fmt --all --check
ifeq ($(CLIPPY),compiles)
	$(CARGO_BUILD) --workspace $(TESTED) --all-targets
else
	$(CARGO) clippy --locked --workspace $(TESTED) --all-targets -j$(JOBS) -- -D warnings
endif
	$(CARGO) test --locked --workspace $(TESTED) -j$(JOBS) --test arrows --test layers
	shellcheck -x $(SCRIPTS)
	shellcheck -s sh examples/mosquitto/certificates.sh $(filter-out %/copyright %.lintian-overrides,$(wildcard packaging/scripts/*))
ifneq ($(DENY),)
	$(CARGO) deny --locked check bans licenses sources
else
	@echo 'cargo-deny is not installed: bans, licences and sources were not checked'
endif

fuzz:
	@if command -v cargo-fuzz >/dev/null && $(CARGO) +nightly --version >/dev/null 2>&1; then \
	  cp Cargo.lock fuzz/Cargo.lock; \
	  for target in $$(cd fuzz && $(CARGO) +nightly fuzz list); do \
	    mkdir -p "fuzz/corpus/$$target"; \
	    (cd fuzz && CARGO_TARGET_DIR='$(TARGET)/fuzz' $(CARGO) +nightly fuzz run "$$target" "corpus/$$target" "seeds/$$target" -- \
	      -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -rss_limit_mb=2048) || exit 1; \
	  done; \
	else echo 'cargo-fuzz or a nightly toolchain is missing: make test runs the targets over their corpus'; fi

demo:
	@.ci/packages demo
	@packaging/demo

clean-demo:
	@packaging/demo clean

bench:
	@.ci/packages bench
	$(CARGO_BUILD) --release -p muster-controller -p muster-cli -p muster-tests --bins
	$(CARGO_BUILD) --profile dist -p muster-agent
	@tests/bench/all.sh --into docs

mutations:
	@.ci/packages build
	JOBS=$(JOBS) tests/mutations/run

soak: fuzz
	@[ "$$(id -u)" = 0 ] || { echo 'make soak needs root: its servers are network namespaces' >&2; exit 1; }
	@.ci/packages test
	$(RMQTTD)
	$(TESTS)
	MUSTER_SEEDS=all $(CARGO) test --locked $(TESTED) -j$(JOBS) -p muster-tests --test simulation what_once_failed
	MUSTER_SOAK=1 $(CARGO) test --locked -j$(JOBS) -p muster-template environments_of
	MUSTER_SOAK=20 $(CARGO) test --locked $(TESTED) -j$(JOBS) -p muster-tests --test processes -- --test-threads=4 kill::
	MUSTER_SOAK=20 $(CARGO) test --locked $(TESTED) -j$(JOBS) -p muster-tests --test processes -- --test-threads=4 --nocapture cut_off::by_
	MUSTER_ROLLOUT_AGENTS=200 $(CARGO) test --locked $(TESTED) -j$(JOBS) -p muster-tests --test processes -- --nocapture rollout::
	MUSTER_SOAK=100 $(CARGO) test --locked $(TESTED) -j$(JOBS) -p muster-tests --test processes -- --nocapture flows::restart::
	$(CARGO_BUILD) --release -p muster-controller -p muster-cli -p muster-agent -p muster-tests --bins
	MUSTER_PROGRAMS='$(RELEASE)' MUSTER_SOAK=20 $(CARGO) test --locked $(TESTED) -j$(JOBS) -p muster-tests --test processes -- \
	  --test-threads=1 --nocapture failovers::
	$(call over_links,--skip brokers:: --skip embedded::)
	$(MAKE) packages QUICK=1 ARCH=aarch64
	$(MAKE) reproducible QUICK=1

packages:
	@.ci/packages packages$(if $(CROSS),-$(ARCH))
	@programs="$$(JOBS=$(JOBS) $(if $(QUICK),$(UNOPTIMISED)) packaging/portable $(GLIBC) $(ARCH))" && \
	  packaging/packages $(if $(QUICK),--fast) --glibc $(GLIBC) --arch $(ARCH) '$(PACKAGES)' \
	    "$$programs/release/muster" "$$programs/release/muster-controller" "$$programs/dist/muster-agent"
	$(if $(CROSS),@packaging/emulated '$(PACKAGES)' $(ARCH))

# Twice from copies of the source at other places: the same bytes. QUICK=1: not optimised, and of the programs the agent.
reproducible:
	@.ci/packages packages
	@JOBS=$(JOBS) $(if $(QUICK),$(UNOPTIMISED) ONLY=muster-agent) packaging/reproducible $(GLIBC) '$(TARGET)/reproducible'

# After `make packages`, also with QUICK=1.
lint-packages:
	@.ci/packages package-lint
	@packaging/lint '$(PACKAGES)'

install:
	@for file in '$(MUSTER)' '$(CONTROLLER)' '$(AGENT)' '$(DOCUMENTS)/man/muster.1'; do \
	  [ -e "$$file" ] || { echo "$$file is not there: run 'make build' first" >&2; exit 1; }; done
	install -Dm755 -t '$(DESTDIR)$(PREFIX)/bin' '$(MUSTER)'
	install -Dm755 -t '$(DESTDIR)$(PREFIX)/sbin' '$(CONTROLLER)' '$(AGENT)'
	install -d '$(DESTDIR)$(PREFIX)/lib/systemd/system'
	for unit in $(UNITS); do \
	  sed 's,/usr/sbin/,$(PREFIX)/sbin/,' packaging/systemd/$$unit >'$(DESTDIR)$(PREFIX)/lib/systemd/system/'$$unit; done
	install -Dm644 -t '$(DESTDIR)$(PREFIX)/lib/systemd/system-preset' packaging/systemd/*.preset
	install -Dm644 packaging/systemd/muster.sysusers '$(DESTDIR)$(PREFIX)/lib/sysusers.d/muster.conf'
	for daemon in controller agent; do [ -e '$(DESTDIR)$(SYSCONFDIR)/muster/'$$daemon.toml ] || \
	  install -Dm644 packaging/$$daemon.toml '$(DESTDIR)$(SYSCONFDIR)/muster/'$$daemon.toml; done
	install -Dm644 -t '$(DESTDIR)$(PREFIX)/share/muster/prometheus' packaging/prometheus/muster.rules.yml
	install -Dm644 -t '$(DESTDIR)$(PREFIX)/share/muster/grafana' packaging/grafana/muster.json
	for section in 1 5 8; do install -Dm644 -t '$(DESTDIR)$(PREFIX)/share/man/man'$$section '$(DOCUMENTS)/man/'*.$$section; done
	for name in $(PROGRAMS); do \
	  install -Dm644 '$(DOCUMENTS)/completion/'$$name.bash '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/'$$name; \
	  install -Dm644 -t '$(DESTDIR)$(PREFIX)/share/zsh/site-functions' '$(DOCUMENTS)/completion/'_$$name; \
	  install -Dm644 -t '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d' '$(DOCUMENTS)/completion/'$$name.fish; done
	@[ -n '$(DESTDIR)' ] || echo "next: systemd-sysusers && systemctl daemon-reload; README.md says how to go on"

# Leaves configuration and state where they are.
uninstall:
	rm -f '$(DESTDIR)$(PREFIX)/bin/muster' '$(DESTDIR)$(PREFIX)/sbin/muster-controller' '$(DESTDIR)$(PREFIX)/sbin/muster-agent'
	for unit in $(UNITS); do rm -f '$(DESTDIR)$(PREFIX)/lib/systemd/system/'$$unit; done
	rm -f '$(DESTDIR)$(PREFIX)'/lib/systemd/system-preset/90-muster-*.preset '$(DESTDIR)$(PREFIX)/lib/sysusers.d/muster.conf'
	for name in $(PROGRAMS); do rm -f '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/'$$name \
	  '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/'_$$name '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/'$$name.fish; done
	rm -f '$(DESTDIR)$(PREFIX)'/share/muster/prometheus/muster.rules.yml '$(DESTDIR)$(PREFIX)'/share/muster/grafana/muster.json
	rm -f '$(DESTDIR)$(PREFIX)'/share/man/man1/muster.1 '$(DESTDIR)$(PREFIX)'/share/man/man1/muster-*.1 \
	  '$(DESTDIR)$(PREFIX)'/share/man/man5/muster-*.5 '$(DESTDIR)$(PREFIX)'/share/man/man8/muster-*.8

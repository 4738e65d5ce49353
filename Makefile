# `make run` runs a real training under optimize; `make test` runs the tests. Both require Go, a C compiler and
# Python 3; the network is used only for Go modules. Without a C compiler the build omits NVML (GPU readings).

GO      ?= go
PYTHON  ?= python3
BIN     := bin/optimize
RUNARGS ?= --prefer cost --deadline 5m --budget 0.05
# Fetched as a Go module on first use.
LINT    := honnef.co/go/tools/cmd/staticcheck@v0.8.0

# The version is that of the nearest tag, else a pseudo-version of the commit.
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE_OF_COMMIT := $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
VERSION ?= $(or $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null),$(and $(COMMIT),0.0.0-$(shell TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --format=%cd)-$(shell git rev-parse --short=12 HEAD)))
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE_OF_COMMIT)

PREFIX  ?= /usr/local
DESTDIR ?=

export CGO_ENABLED ?= $(shell command -v $${CC:-cc} >/dev/null 2>&1 && echo 1 || echo 0)

.PHONY: run build gorgonia install uninstall dist module test bench lint vet fuzz problems agent scheduler models prices measurements conformance conformance-venv pairs calibration-runs oracle oracle-update lab lab-stop lab-test browser uplot clean check-go

build: check-go $(BIN)

# Sources with what they embed: everything but tests' data, documents, hidden folders and outputs.
SOURCES = $(shell find . \( -name '.?*' -o -name testdata -o -name __pycache__ -o -path ./docs -o -path ./bin -o -path ./dist \) -prune -o -type f -print)

$(BIN): $(SOURCES)
	@[ "$(CGO_ENABLED)" = 1 ] || echo "no C compiler: building without NVML (GPU readings); install gcc (Debian: apt-get install gcc libc6-dev) to have them"
	$(GO) build -ldflags "$(LDFLAGS)" -o $@ ./cmd/optimize

# The program with Gorgonia, for `optimize pretrain --backend gorgonia`.
gorgonia: check-go
	$(GO) build -tags gorgonia -ldflags "$(LDFLAGS)" -o $(BIN) ./cmd/optimize

# Install the program, its manual pages and shell completions below PREFIX (make install PREFIX=$HOME/.local).
share = $(DESTDIR)$(PREFIX)/share
install: build
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/optimize
	@$(BIN) man $(share)/man
	@mkdir -p $(share)/bash-completion/completions $(share)/zsh/site-functions $(share)/fish/vendor_completions.d
	@$(BIN) completion bash > $(share)/bash-completion/completions/optimize
	@$(BIN) completion zsh > $(share)/zsh/site-functions/_optimize
	@$(BIN) completion fish > $(share)/fish/vendor_completions.d/optimize.fish
	@echo "installed $(DESTDIR)$(PREFIX)/bin/optimize; start with: optimize --train train.py"

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/optimize $(share)/man/man1/optimize.1 $(share)/man/man1/optimize-*.1 \
		$(share)/bash-completion/completions/optimize $(share)/zsh/site-functions/_optimize $(share)/fish/vendor_completions.d/optimize.fish

# Build static binaries for linux/amd64 and arm64, archives, Debian packages, bills of materials and checksums in dist.
dist: check-go
	@rm -rf dist
	$(GO) run ./internal/gen release -version "$(VERSION)" -commit "$(COMMIT)" -date "$(DATE_OF_COMMIT)" -out dist

# Rename the module, so that `go install MODULE/cmd/optimize@VERSION` finds it: make module MODULE=HOST/OWNER/REPOSITORY
OLD_MODULE = $(shell $(GO) list -m)
module: check-go
	@[ -n "$(MODULE)" ] || { echo "usage: make module MODULE=HOST/OWNER/REPOSITORY"; exit 2; }
	$(GO) mod edit -module $(MODULE)
	find . -name '*.go' -exec sed -i 's|"$(OLD_MODULE)/|"$(MODULE)/|g' {} +
	gofmt -w $$(find . -name '*.go')

check-go:
	@command -v $(GO) >/dev/null || { echo "Go is missing: install Go 1.26 or newer (https://go.dev/dl)"; exit 1; }

# Run a real training in standard-library Python, about a minute.
run: build
	@command -v $(PYTHON) >/dev/null || { echo "Python 3 is missing: install python3"; exit 1; }
	$(BIN) --train examples/train_digits.py $(RUNARGS)

# A busy machine needs more than Go's usual 10 minutes for a package.
test: check-go
	$(GO) test -timeout 1h ./...

vet:
	$(GO) vet ./...

lint: vet
	@test -z "$$(gofmt -l .)" || { echo "not gofmt-ed:"; gofmt -l .; exit 1; }
	$(GO) run $(LINT) ./...

# Run the seed corpus of every fuzz target as ordinary tests.
fuzz:
	$(GO) test -run '^Fuzz' ./...

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# Check that the learning agents solve problems with known optima. About 50 minutes of one core.
problems: check-go
	$(GO) test ./simulator/pretrain -run '^TestGates$$' -gates -count=1 -timeout 4h -v

# Train the embedded agent in simulation, on jobs drawn from the embedded models. Five minutes of one core.
agent: build
	$(BIN) pretrain --env training --algorithm conditioned --seed 1 --output optimizer/plan/agent.bin --curves bin/agent.html --curves bin/agent.csv

# Train the embedded sub-scheduler for placement. Half a minute of one core. The commands that train the two agents for
# queues are listed in simulator/ancestors/rlscheduler/agent.go.
scheduler: check-go
	$(GO) test ./simulator/ancestors/metis -run '^TestPretrain$$' -pretrain metis.model -count=1 -v

# Refit the embedded models of measured jobs to the tables in DATA (sources: docs/learning.md); DATE is the day of the fit.
DATE ?= $(shell date -u +%Y-%m-%d)
models: check-go
	@[ -n "$(DATA)" ] || { echo "usage: make models DATA=FOLDER with pollux-profiles, gavel and zeus-nsdi23 in it"; exit 2; }
	$(GO) run ./internal/gen profiles --data $(DATA) --date $(DATE)
	$(GO) test ./simulator/trial -run TestModels -update

# Regenerate the embedded prices from the lists in DATA (sources: internal/gen/prices.go).
prices: check-go
	@[ -n "$(DATA)" ] || { echo "usage: make prices DATA=FOLDER with aws_ondemand.csv.gz, azure_ondemand_n_series.csv.gz and cloud-gpus.csv in it"; exit 2; }
	$(GO) run ./internal/gen prices --data $(DATA)

# Regenerate the embedded measurements from the published tables in DATA (sources: docs/prediction.md).
measurements: check-go
	@[ -n "$(DATA)" ] || { echo "usage: make measurements DATA=FOLDER with pollux-profiles, gavel, elasticflow and mlperf in it"; exit 2; }
	$(GO) run ./internal/gen measurements --data $(DATA)

# Run the conformance suite with real training frameworks: create a virtual environment of 7 GB if missing (10–20 minutes),
# then run every training of internal/conformance to completion and with a stop and a resume. CONFORMANCE adds flags, as in
# `make conformance CONFORMANCE='-run TestConformance/keras -update'`.
CONFORMANCE_VENV := $(or $(OPTIMIZE_CONFORMANCE_VENV),$(HOME)/.cache/optimize/conformance)
CONFORM = $(GO) test ./internal/conformance -count=1 -v -python $(CONFORMANCE_VENV)/bin/python -binary $(CURDIR)/$(BIN)

conformance-venv:
	@[ -x $(CONFORMANCE_VENV)/bin/python ] || $(PYTHON) -m venv $(CONFORMANCE_VENV)
	@$(CONFORMANCE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r internal/conformance/requirements.txt

conformance: build conformance-venv
	$(CONFORM) -timeout 3h -run '^TestConformance$$' -length full $(CONFORMANCE)

# Overhead benchmark: PAIRS alternating bare and wrapped runs of each training, on a quiet machine (10: about 2 hours; 3: 30 minutes).
PAIRS ?= 10
pairs: build conformance-venv
	$(CONFORM) -timeout 8h -run '^TestPairs$$' -length full -pairs $(PAIRS) $(CONFORMANCE)

# Coverage of the 90 % intervals: RUNS runs on the idle machine and RUNS under a load of 30 processes.
RUNS ?= 20
calibration-runs: build conformance-venv
	$(CONFORM) -timeout 8h -run '^TestCalibration$$' -calibration $(RUNS) $(CONFORMANCE)

# Compare the output of every documented command and quick figure with internal/oracle/digests.txt. A few minutes of two cores.
oracle: check-go
	$(GO) run ./internal/oracle

oracle-update: check-go
	$(GO) run ./internal/oracle -update

# Start a Slurm cluster of four small nodes with fake GPUs on this machine, in .lab (docs/slurm.md); stop it with its jobs.
lab:
	@internal/lab/lab.sh start .lab

lab-stop:
	@internal/lab/lab.sh stop .lab

# Run the tests that need a Slurm cluster: the engine, runs inside an allocation, sweeps, and the faults of daemons, agents
# and nodes. They require root and the packages that `make lab` names.
lab-test: check-go
	TRAINOPT_LAB=1 $(GO) test -count=1 ./optimizer/engine/slurm -run Lab -timeout 10m
	TRAINOPT_LAB=1 $(GO) test -count=1 ./cmd/optimize -run 'TestScancel|TestKilledWithItsJob|TestTimeLimit|TestPreemption|TestRequeue|TestSweepInLab' -timeout 15m
	TRAINOPT_LAB=1 $(GO) test -count=1 ./internal/lab -timeout 60m $(LAB_TESTS)

# Test the pages of optimize serve in a headless Chromium (Debian package chromium), with axe-core from npm. A few minutes.
browser: build
	$(GO) test -tags browser -count=1 -timeout 30m ./optimizer/serve -binary $(CURDIR)/$(BIN)

# Replace the embedded uPlot, with its licence, by the latest release 1.6 from npm.
UPLOT := optimizer/serve/static/uplot
uplot:
	@command -v npm >/dev/null || { echo "npm is missing: install nodejs and npm"; exit 1; }
	dir=$$(mktemp -d) && (cd $$dir && npm pack --silent uplot@1.6 && tar xzf uplot-*.tgz) && \
	  install -m 644 $$dir/package/dist/uPlot.iife.min.js $$dir/package/dist/uPlot.min.css $$dir/package/LICENSE $(UPLOT)/ && rm -r $$dir

clean:
	rm -rf bin dist .optimize

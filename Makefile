# `make run` runs the main job on a real training; `make test` passes the tests. Both need Go, a C compiler and
# Python 3, and the network for Go modules only. Without a C compiler everything but NVML (GPU readings) is built.

GO      ?= go
PYTHON  ?= python3
BIN     := bin/optimize
RUNARGS ?= --prefer cost --deadline 5m --budget 0.05
# Fetched as a Go module when first used.
LINT    := honnef.co/go/tools/cmd/staticcheck@v0.8.0

export CGO_ENABLED ?= $(shell command -v $${CC:-cc} >/dev/null 2>&1 && echo 1 || echo 0)

.PHONY: run build test bench lint vet fuzz problems agent scheduler models prices measurements conformance conformance-venv pairs calibration-runs oracle oracle-update clean check-go

build: check-go $(BIN)

$(BIN): $(shell find . -name '*.go' -not -path './bin/*') go.mod go.sum $(wildcard cmd/optimize/*.yaml)
	@[ "$(CGO_ENABLED)" = 1 ] || echo "no C compiler: building without NVML (GPU readings); install gcc (Debian: apt-get install gcc libc6-dev) to have them"
	$(GO) build -o $@ ./cmd/optimize

check-go:
	@command -v $(GO) >/dev/null || { echo "Go is missing: install Go 1.26 or newer (https://go.dev/dl)"; exit 1; }

# The main job on a real training: standard-library Python, about a minute.
run: build
	@command -v $(PYTHON) >/dev/null || { echo "Python 3 is missing: install python3"; exit 1; }
	$(BIN) --train examples/train_digits.py $(RUNARGS)

test: check-go
	$(GO) test ./...

vet:
	$(GO) vet ./...

lint: vet
	@test -z "$$(gofmt -l .)" || { echo "not gofmt-ed:"; gofmt -l .; exit 1; }
	$(GO) run $(LINT) ./...

# Seeds of every fuzz target, as ordinary tests.
fuzz:
	$(GO) test -run '^Fuzz' ./...

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# Do the learning agents reach what can be reached on problems with known answers? About 50 minutes of one core.
problems: check-go
	$(GO) test ./simulator/pretrain -run '^TestGates$$' -gates -count=1 -timeout 4h -v

# Trains the agent that is part of the program.
# The agent in the binary: trained in simulation on jobs drawn from the embedded models, five minutes of one core.
agent: build
	$(BIN) pretrain --env training --agent conditioned --seed 1 --out optimizer/plan/agent.bin --curves bin/agent.html --curves bin/agent.csv

# The sub-scheduler for placement that is in the binary: half a minute of one core. The two policies for queues are made by three
# commands, in the head of simulator/queue/agents/agents.go.
scheduler: check-go
	$(GO) test ./simulator/ancestors/metis/learned -run '^TestPretrain$$' -pretrain metis.model -count=1 -v

# The embedded models of measured jobs, fitted again to the tables in DATA (docs/learning.md says where they are from).
models: check-go
	@[ -n "$(DATA)" ] || { echo "usage: make models DATA=FOLDER with pollux-profiles, gavel and zeus-nsdi23 in it"; exit 2; }
	$(GO) run ./internal/gen profiles --data $(DATA)
	$(GO) test ./simulator/training/recurring -run TestModels -update

# The embedded prices, made again from the lists in DATA (internal/gen/prices.go says where they are from).
prices: check-go
	@[ -n "$(DATA)" ] || { echo "usage: make prices DATA=FOLDER with aws_ondemand.csv.gz, azure_ondemand_n_series.csv.gz and cloud-gpus.csv in it"; exit 2; }
	$(GO) run ./internal/gen prices --data $(DATA)

# The embedded measurements, thinned again from the published tables in DATA (docs/prediction.md says where they are from).
measurements: check-go
	@[ -n "$(DATA)" ] || { echo "usage: make measurements DATA=FOLDER with pollux-profiles, gavel, elasticflow and mlperf in it"; exit 2; }
	$(GO) run ./internal/gen measurements --data $(DATA)

# Conformance with real training frameworks: a virtual environment of 7 GB, built when missing (10–20 minutes), then
# every training of internal/conformance whole, stopped and resumed. CONFORMANCE adds flags, as in
# `make conformance CONFORMANCE='-run TestConformance/keras -update'`.
CONFORMANCE_VENV := $(or $(OPTIMIZE_CONFORMANCE_VENV),$(HOME)/.cache/optimize/conformance)
CONFORM = $(GO) test ./internal/conformance -count=1 -v -python $(CONFORMANCE_VENV)/bin/python -binary $(CURDIR)/$(BIN)

conformance-venv:
	@[ -x $(CONFORMANCE_VENV)/bin/python ] || $(PYTHON) -m venv $(CONFORMANCE_VENV)
	@$(CONFORMANCE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r internal/conformance/requirements.txt

conformance: build conformance-venv
	$(CONFORM) -timeout 3h -run '^TestConformance$$' -length full $(CONFORMANCE)

# Never slower: PAIRS alternating bare and wrapped runs of each training, on a quiet machine (10: about 2 hours; 3: 30 minutes).
PAIRS ?= 10
pairs: build conformance-venv
	$(CONFORM) -timeout 8h -run '^TestPairs$$' -length full -pairs $(PAIRS) $(CONFORMANCE)

# Do 90 % intervals hold? RUNS runs on the machine as it is, and as many under a load of 30 processes.
RUNS ?= 20
calibration-runs: build conformance-venv
	$(CONFORM) -timeout 8h -run '^TestCalibration$$' -calibration $(RUNS) $(CONFORMANCE)

# What every documented command and quick figure prints, against internal/oracle/digests.txt; a few minutes of two cores.
oracle: check-go
	$(GO) run ./internal/oracle

oracle-update: check-go
	$(GO) run ./internal/oracle -update

clean:
	rm -rf bin .optimize

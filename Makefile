# Daybook. `make demo` shows a log at work, `make test` says whether a change
# can be trusted; `make help` lists the rest.

export GOTOOLCHAIN = go1.27.3

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
ERRCHECK    = github.com/kisielk/errcheck@v1.30.0
FUZZTIME   ?= 60s
COUNT      ?= 1000
SEEDS      ?= 10000
KILLS      ?= 500
FLIPS      ?= 25
CUTS       ?= 60
READ       ?= 1ms

.PHONY: help build demo test lint unit difftest conformance sim mutate crash crash-long power incident bench bench-floor bench-scale perf pgo-profile pgo-compare fuzz clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## build bin/daybook
	@mkdir -p bin
	go build -o bin/daybook ./cmd/daybook

demo: build ## run a log, submit COUNT chains, verify all of it, go on serving (ONCE=1: exit instead)
	./bin/daybook demo --count $(COUNT) $(if $(ONCE),--once)

perf: ## cost of an entry in floors, against the recorded ratio
	go test -count 1 -v -run InFloors ./test/perf

test: lint unit difftest perf ## everything that tells whether a change can be trusted
	$(MAKE) --no-print-directory demo ONCE=1

lint: ## gofmt, vet, staticcheck, errcheck, go mod tidy
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi
	go vet ./...
	go run $(STATICCHECK) ./...
	go run $(ERRCHECK) ./...
	go mod tidy -diff
	cd cert/difftest && go mod tidy -diff && go vet ./...

unit: ## all tests, with the race detector; of test/crash the kills (make crash has the rest)
	go test -race -timeout 15m $$(go list ./... | grep -vE '/test/(crash|power)$$')
	go test -timeout 10m -run 'TestKills' ./test/crash

difftest: ## the certificate parser against certificate-transparency-go's
	cd cert/difftest && go test ./...

conformance: build ## hold logs of our own to the specifications, clause by clause (QUICK=1: without the idle log)
	go run ./test/conformance/run -daybook bin/daybook -check-admission docs/admission.md -dump bin/scts.json $(if $(QUICK),-quick)
	cd test/conformance/peer && go vet ./... && go run . ../../../bin/scts.json

sim: SHELL = /bin/bash -o pipefail
sim: ## simulate logs with faults and crashes for SEEDS seeds, or replay SEED
	go test -run '^TestSimulation$$' -v -timeout 60m ./sequencer $(if $(SEED),-sim.seed $(SEED),-sim.seeds $(SEEDS)) $(if $(SEED),,| grep -v '^ *--- PASS\|^=== ')

mutate: ## break the code in a hundred places, one at a time, and see the tests notice (RUN=regexp: only some)
	go run ./test/mutate $(if $(RUN),-run '$(RUN)')

crash: ## kill the real program forty times, and spoil what it stands on
	go test -count 1 -timeout 15m -v ./test/crash

crash-long: ## the same with KILLS kills and FLIPS bits in each kind of file; SEED decides which
	go test -count 1 -timeout 3h -v -run 'Kills|RandomFlips|Suspended$$' ./test/crash -kills $(KILLS) -flips $(FLIPS) -pause 30s -seed $(or $(SEED),1)

power: ## cut the power of a machine CUTS times, and of logs without their fsyncs; needs Debian and root (SEED, ACCEL=kvm)
	sh test/power/setup.sh bin/power
	go test -count 1 -timeout 3h -v ./test/power -cuts $(CUTS) -seed $(or $(SEED),1) -accel $(or $(ACCEL),tcg)

incident: ## replay the incident (docs/incident.md), and what each remedy is worth; a page read takes READ more (ONLY: lines that match)
	go run ./test/incident/run -read $(READ) -only '$(ONLY)'

bench: ## benchmarks of intake, round, cache, parser, signatures
	go test -run '^$$' -bench . -benchmem ./...

bench-floor: ## the floor that signatures set, and what an entry costs in floors
	go test -count 1 -v -run InFloors -bench Floor ./test/perf

bench-scale: build ## by rows of the dedup cache, size of the tree, open connections (DIR= keeps the caches; ROWS=1e8 PARTS=cache FILTER=1.5 by hand)
	go run ./test/scale -dir $(or $(DIR),bin/scale) $(if $(PARTS),-parts $(PARTS)) $(if $(ROWS),-rows $(ROWS)) $(if $(SIZES),-sizes $(SIZES)) $(if $(FILTER),-filter $(FILTER))

pgo-profile: build ## write cmd/daybook/default.pgo, with which go build then optimizes the program
	go run ./test/scale -parts profile -dir bin/scale

pgo-compare: build ## what an entry costs with such a profile, which is not kept there, and without it
	go run ./test/scale -parts profile,pgo -profile bin/scale/load.pgo -dir bin/scale

fuzz: ## every fuzz target for FUZZTIME each
	@set -e; for pkg in $$(go list ./...); do \
	  for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; \
	done

clean: ## remove what was built
	rm -rf bin

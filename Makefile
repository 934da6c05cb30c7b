# The daily verbs. `make` alone lists them. What CI runs is .ci/run; verbs that
# it also needs call it, so that they cannot differ.

FUZZTIME ?= 10s
BENCH    ?= .
COUNT    ?= 1
EXAMPLE  ?= *
CHAOS    ?= -chaos.runs 10 -chaos.faults 8
KILLS    ?= 100
HANDOVERS ?= 100
SEED ?= 1
PODS ?= 100
TRAINERS ?= 20

.PHONY: help build test race lint generate check fuzz sbom vulnerabilities models bench bench-peers bench-rounds compare examples chaos handover recovery dashboard kubernetes image chart packaging onnx site demo ci
.DEFAULT_GOAL := help

help: ## List the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the edl command into bin/
	go build -o bin/ ./cmd/...

test: ## Run every test
	.ci/run test

race: ## Run the tests of concurrent packages under the race detector
	.ci/run race

lint: ## Check format, go vet and staticcheck
	.ci/run format vet staticcheck

generate: ## Write generated code anew
	go generate ./...

check: ## Check everything that needs no test run
	.ci/run format vet staticcheck generated

fuzz: ## Run each fuzz target for FUZZTIME (10s)
	@grep -rno --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | \
	while IFS=: read -r file _ declaration; do \
		echo "== $$file $${declaration#func }"; \
		go test -run '^$$' -fuzz "^$${declaration#func }$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
	done

sbom: build ## Write the modules of the build to bin/sbom.json, for scanners of vulnerabilities
	bin/edl version --sbom > bin/sbom.json

vulnerabilities: ## Look for known vulnerabilities that the code reaches, where the data about them can be fetched
	.ci/run vulnerabilities

models: ## Train the models of Fluid's distributed tests on a cluster: in sync mode in their published sizes, every bit compared; small ones in async mode, to a bound
	go test ./remote -run 'TestFluidModels$$' -count 1 -timeout 1h -v -whole
	EDL_LONG=1 go test ./remote -run 'TestFluidModelsConvergeInAsyncMode$$' -count 1 -v

bench: ## Run benchmarks that match BENCH (all), COUNT times (1)
	@go test -run '^$$' -bench '$(BENCH)' -count $(COUNT) -benchmem ./...

bench-peers: ## Measure beside PyTorch, gorgonia and OpenBLAS: PEERS='-rounds 3 -run mlp', '-growth'
	@go run ./bench/cmd/peers $(PEERS)

# The program is built first: its child processes are roles of jobs, which end with the process that started them.
bench-rounds: ## Measure rounds of clusters beside PyTorch DDP and sockets: ROUNDS='-rounds 3 -run steps', '-growth'
	@go build -o bin/bench-rounds ./bench/cmd/rounds
	@bin/bench-rounds $(ROUNDS)

compare: ## Compare two outputs of `make bench`: OLD=file NEW=file
	@go tool -modfile=tools/go.mod benchstat $(OLD) $(NEW)

examples: ## Train the examples until they reach the stop tests of the book, also those that take minutes
	EDL_LONG=1 go test ./examples/... -count 1 -timeout 1h -v -run 'Test[^L]'

chaos: ## Break running jobs at random for long: CHAOS='-chaos.runs 10 -chaos.faults 8 -chaos.seed 1'
	go test ./remote/chaos -count 1 -timeout 2h -v $(CHAOS)

handover: ## Strike listeners and nodes of HANDOVERS (100) jobs, from seed SEED (1) on; HANDOVERS=1 SEED=7 repeats one
	go build -buildvcs=false -o bin/edl-next ./cmd/edl
	go test ./edlcmd -run 'TestListenerIsKilled|TestHandover|TestSessionOutlivesListeners' -count 1 -timeout 2h -v -handovers $(HANDOVERS) -handovers.seed $(SEED) -handovers.pause 8s -handovers.next $(CURDIR)/bin/edl-next

recovery: ## Measure how soon jobs go on after KILLS (100) kills of each kind
	go test ./remote/chaos -run '^$$' -bench . -benchtime 1x -timeout 2h -chaos.kills $(KILLS)

dashboard: ## Look at the pages of a listener in chromium: SCREENSHOTS=folder keeps pictures
	go -C remote/web/browser test -count 1 -v .

kubernetes: ## Build the control plane of Kubernetes, once, and train on a cluster of it; PODS=1000 starts so many trainers (100), and TRAINERS=1000 lets so many train (20)
	folder=$$(tools/kubernetes/build) && EDL_CONTROL_PLANE=$$folder go test ./remote/kubernetes -run 'TestCluster|TestTrainingJob' -count 1 -v -timeout 30m -args -pods $(PODS) -trainers $(TRAINERS)

image: ## Make the image of edl for linux/amd64 and linux/arm64 as an OCI archive in bin/, without Docker
	@go -C tools/image run . -out ../../bin/edl-image.tar $(IMAGE)

chart: ## Write the kustomize base from the chart
	go -C tools/chart run .

site: ## Write the documentation as a static site to bin/site: pages, examples of the DSL with what they print, search
	@go -C tools/site run . -root $(CURDIR) -out $(CURDIR)/bin/site

packaging: ## Test what makes images and the site, the chart beside the kustomize base, and the alert rules by Prometheus' parser
	go -C tools/site test ./...
	go -C tools/image test ./...
	go -C tools/chart test ./...
	go -C tools/vulnerabilities test ./...
	go -C tools/alerts test ./...

ONNXRUNTIME ?= $(HOME)/.cache/edl/onnxruntime

onnx: ## Compare ONNX models that are written with ONNX Runtime, which npm installs
	@[ -d $(ONNXRUNTIME)/node_modules/onnxruntime-node ] || npm install --prefix $(ONNXRUNTIME) --ignore-scripts onnxruntime-node@1.30.0
	EDL_ONNXRUNTIME=$(ONNXRUNTIME) go test ./executor/export/onnx -count 1

demo: ## Run the examples that match EXAMPLE (all)
	@for folder in examples/$(EXAMPLE)/; do \
		[ "$$folder" != examples/internal/ ] || continue; \
		[ -d "$$folder" ] || { echo "no example matches $(EXAMPLE)"; exit 1; }; \
		echo "== $$folder"; \
		go run "./$$folder" || exit 1; \
	done

ci: ## Run all that CI runs
	.ci/run

GO ?= go
VERSION ?= dev
BIN := bin/coldtap
# The packages whose tests run goroutines against each other.
CONCURRENT := ./cache/... ./readerpool/... ./readahead/... ./indexcache/... ./tier/... ./catalog/... ./rangeio/... ./cluster/... ./layout/... ./fetch/... ./gateway/... ./export/...
FUZZTIME ?= 10s
# Off for everything but the race detector, so that building and testing share what they compile.
export CGO_ENABLED = 0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build cross help demo test race lint fuzz bench e2e hostile cover mutate clean
.DEFAULT_GOAL := build

build: ## build the binary into bin/
	$(GO) build -ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN) ./cmd/coldtap

cross: ## build for macOS and Windows too, and throw the binaries away
	@for target in darwin/amd64 darwin/arm64 windows/amd64 windows/arm64; do \
		echo $$target; GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) build -o /dev/null ./cmd/coldtap || exit 1; done

help: ## show this list
	@awk -F':.*## ' '/^[a-z0-9]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## serve a sample of real Kafka segments on 127.0.0.1:8080
	$(BIN) demo

test: ## run every test
	$(GO) test ./...

race: ## run the concurrent rooms' tests under the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout 20m $(CONCURRENT)

lint: ## gofmt, vet and staticcheck
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	$(GO) vet ./... && $(GO) vet -tags e2e,hostile ./e2e/...
	$(GO) run $(STATICCHECK) ./... && $(GO) run $(STATICCHECK) -tags e2e,hostile ./e2e/...

fuzz: ## run each fuzz target for FUZZTIME (10s)
	.ci/fuzz $(FUZZTIME)

bench: build ## print the figures of docs/benchmarks.md, measured in one run
	$(BIN) bench

e2e: ## read beside a real three-broker Kafka and compare with its stock clients (JDK 17, Maven)
	$(GO) test -tags e2e -count=1 -timeout 20m -v ./e2e

hostile: build ## attack the built binary: descriptors, endless answers, stalled readers, other sites' pages, bad ends (Linux)
	$(GO) test -tags hostile -count=1 -timeout 3m -v ./e2e/hostile

cover: ## show what tests don't reach
	$(GO) test -coverprofile=cover.out -coverpkg=./... ./... && $(GO) tool cover -func=cover.out | tail -n 1 && $(GO) tool cover -html=cover.out -o cover.html

mutate: ## show what the tests of ROOM (default: ten rooms, hours) let pass when an operator is changed
	.ci/mutate $(ROOM)

clean: ## remove what was built
	rm -rf bin cover.out cover.html

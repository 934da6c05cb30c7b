// Package bench holds the models that measure EDL, next to PyTorch, gorgonia and OpenBLAS.
//
// A Workload is a model with its optimizer, batches that are ready to be fed, and the amount of work that a step cannot avoid. Training runs its
// steps like a user who wants no allocations: a prepared program, fed the next batch. The scripts in bench/peers define the same workloads for
// PyTorch. Change both sides together.
//
// A Reading is the same model as a program that reads its batches from record files, as a job on a cluster does.
//
// Four commands measure workloads. `go test -bench . ./bench` is for daily work on a kernel. bench/cmd/measure takes one measurement in a process
// of its own, so that its peak memory is its own, too. `make bench-peers` (bench/cmd/peers) alternates between such processes and those of the
// peers, and writes the tables of docs/performance.md. `make bench-rounds` (bench/cmd/rounds) does the same for the rounds of jobs on a cluster.
//
// Files: workload.go, models.go, images.go, sequences.go, builder.go, reading.go.
package bench

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Workload is a program whose step is measured: a model that trains, or a single matrix product.
type Workload struct {
	Program *program.Program
	Fetch   string          // variable that a step returns: the loss
	Batches []executor.Feed // ready to be fed, in turn

	// Flops is the floating-point operations of the matrix products and convolutions of a step. It does not count gradients with respect to feeds,
	// which nobody computes.
	Flops int64
	// Bytes is the least number of bytes that a step moves if its parameters fit into no cache: it reads and writes each parameter and each of its
	// optimizer values once. Of a table it moves a row for each id.
	Bytes int64
}

// models maps the name of a model to a function that builds it and returns the variable to minimize or to fetch. A model with arguments gets the
// part of the name after the colon.
var models = map[string]func(b *builder, arguments string) layers.Variable{
	"sgemm":      sgemm,
	"fit_a_line": fitALine,
	"mlp":        mlp,
	"conv":       conv,
	"ctr":        ctr,
	"ctr_tables": func(b *builder, arguments string) layers.Variable {
		b.tables = distributedTables
		return ctr(b, arguments)
	},
	"ctr_keys": func(b *builder, arguments string) layers.Variable { b.tables = growingTables; return ctr(b, arguments) },
	"word2vec": word2vec,
	"lstm":     lstm,

	"lstm_ragged":    raggedLSTM,
	"gru_ragged":     raggedGRU,
	"sentiment_conv": sentimentConv,
	"transformer":    transformer,
	"vgg16":          vgg16,
	"resnet32":       resnet32,
	"mobilenet":      mobilenet,
	"fc":             fullyConnected,
	"flat":           flat,
}

// A rule updates parameters. slots is the number of values that it keeps for each element.
type rule struct {
	build func() *optimizer.Optimizer
	slots int64
}

var rules = map[string]rule{
	"sgd":  {func() *optimizer.Optimizer { return optimizer.SGD(1e-3) }, 0},
	"adam": {func() *optimizer.Optimizer { return optimizer.Adam(1e-3, optimizer.Lazy()) }, 2},
}

// New builds the workload MODEL/OPTIMIZER. Models are fit_a_line, mlp, conv, ctr, word2vec, lstm, lstm_ragged, gru_ragged, sentiment_conv, transformer, vgg16, resnet32, mobilenet, conv:BATCH, ctr:BATCH, ctr_tables:BATCH whose tables are on pservers
// alone, ctr_keys:BATCH whose tables grow, fc:BATCH:WIDTH-WIDTH-... for a
// network of fully connected layers, and flat:BATCH:PARAMETERS:BYTES for parameters with almost no arithmetic. Optimizers are sgd and adam. sgemm:MxKxN,
// without an optimizer, is one matrix product. A name always has the same initial values and batches.
func New(name string) (*Workload, error) {
	w, _, err := build(name, newBuilder())
	return w, err
}

// build builds the workload of that name with b, which the model has declared its inputs to. optimizer is the part of the name after the slash.
func build(name string, b *builder) (_ *Workload, optimizer string, _ error) {
	model, optimizer, _ := strings.Cut(name, "/")
	model, arguments, _ := strings.Cut(model, ":")
	network, known := models[model]
	if !known {
		return nil, "", unknown(name, "model", models)
	}
	r, trains := rules[optimizer]
	if !trains && optimizer != "" {
		return nil, "", unknown(name, "optimizer", rules)
	}
	fetch := network(b, arguments)
	if b.err != nil {
		return nil, "", b.err
	}
	if trains {
		r.build().Minimize(fetch)
	}
	p, err := b.Program()
	if err != nil {
		return nil, "", err
	}
	return &Workload{Program: p, Fetch: fetch.Name(), Batches: b.feeds, Flops: b.flops, Bytes: b.bytes(r.slots)}, optimizer, nil
}

func unknown[V any](name, part string, known map[string]V) error {
	return fault.E(fault.InvalidArgument, fault.Got("workload "+name),
		fault.Want("MODEL/OPTIMIZER with a "+part+" of "+strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
}

func elements(dims []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}

// A Training is a workload that is ready to run.
type Training struct {
	local    *executor.Local
	prepared *executor.Prepared
	batches  []executor.Feed
}

// Start compiles a workload for a number of threads and initializes its parameters. The caller calls Close.
func Start(ctx context.Context, w *Workload, threads int) (*Training, error) {
	local := executor.New(executor.WithWorkers(threads))
	prepared, err := local.Prepare(ctx, w.Program, w.Batches[0], w.Fetch)
	if err != nil {
		local.Close()
		return nil, err
	}
	return &Training{local, prepared, w.Batches}, nil
}

// Step feeds batch i, modulo their number, runs the program, and returns the fetched loss, which is valid until the next step.
func (t *Training) Step(ctx context.Context, i int) (*tensor.Tensor, error) {
	fetched, err := t.prepared.Run(ctx, t.batches[i%len(t.batches)])
	if err != nil {
		return nil, err
	}
	return fetched[0], nil
}

// Close releases the executor.
func (t *Training) Close() error { return t.local.Close() }

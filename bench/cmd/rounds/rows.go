package main

import (
	"fmt"

	"github.com/edl-go/edl/bench/internal/rounds"
)

// A section is a table of the report.
type section struct {
	name, title string
	rows        []row
	write       func(r *runner, part section, row row) [][]string // the lines of a row
	heading     []string
}

// A row is a job with what it is compared with.
type row struct {
	label string
	job   rounds.Job

	ddp        string // workload of each of its trainers in PyTorch; empty: none
	goroutines bool   // the job is measured with roles that are goroutines, too
	local      bool   // its workload is measured on one machine, too
	bytes      int    // that are copied to its pservers and back, too; 0: none
	requests   int    // slices that are pushed and pulled in a round, of a row that counts requests
}

// cluster returns a job with so many trainers and pservers.
func cluster(workload string, trainers, pservers int32) rounds.Job {
	return rounds.Job{Workload: workload, Trainers: trainers, Pservers: pservers}
}

// Workloads of jobs. The batch is that of all trainers.
const (
	mlp  = "fc:128:784-200-200-10"
	conv = "conv:128"
	line = "fit_a_line/sgd"
	ctr  = "ctr:1024"
)

// Sections by name.
const (
	steps    = "steps"
	grid     = "grid"
	transfer = "transfer"
	requests = "requests"
	whole    = "whole"
	sparse   = "sparse"
)

// stepHeading is that of stepLines.
var stepHeading = []string{"model", "transport", "EDL, a step", "DDP, a step", "DDP / EDL", ddpReading, ddpReading + " / EDL",
	"one machine, 1 thread", "CPU of a step, EDL / DDP", "context switches, EDL / DDP", "mallocs, roles as goroutines"}

var tables = []section{
	{steps, "Steps beside PyTorch: 2 trainers, 2 pservers, batches of 128; DDP with 2 processes", []row{
		{label: "MLP, SGD", job: cluster(mlp+"/sgd", 2, 2), ddp: "mlp/sgd", goroutines: true, local: true},
		{label: "MLP, Adam", job: cluster(mlp+"/adam", 2, 2), ddp: "mlp/adam", goroutines: true, local: true},
		{label: "conv net, SGD", job: cluster(conv+"/sgd", 2, 2), ddp: "conv/sgd", goroutines: true, local: true},
	}, stepLines, stepHeading},
	{grid, "Trainers x pservers", []row{
		{label: "MLP 1x1", job: cluster(mlp+"/sgd", 1, 1)},
		{label: "MLP 2x1", job: cluster(mlp+"/sgd", 2, 1)},
		{label: "MLP 8x1", job: cluster(mlp+"/sgd", 8, 1)},
		{label: "MLP 2x4", job: cluster(mlp+"/sgd", 2, 4)},
		{label: "MLP 4x4", job: cluster(mlp+"/sgd", 4, 4)},
		{label: "MLP 8x4", job: cluster(mlp+"/sgd", 8, 4)},
		{label: "MLP 2x2, async", job: rounds.Job{Workload: mlp + "/sgd", Trainers: 2, Pservers: 2, Async: true}},
		{label: "fit_a_line 4x2", job: cluster(line, 4, 2)},
		{label: "fit_a_line 8x2", job: cluster(line, 8, 2)},
	}, gridLine, []string{"job", "transport", "a step", "CPU of a step", "context switches", "peak memory of all processes"}},
	{transfer, "Push and pull of one parameter: 1 trainer, 2 pservers; GB/s in both directions, one after the other", []row{
		transferRow("64 KB", 64<<10),
		transferRow("1 MB", 1<<20),
		transferRow("16 MB", 16<<20),
		transferRow("256 MB", 256<<20),
	}, transferLine, []string{"parameter", "transport", "EDL, a step", "EDL", "sockets without protocol", "EDL / sockets",
		"one machine, a step"}},
	{requests, "Small requests: 1,000 parameters of 64 bytes, 1 trainer, 2 pservers", []row{
		{label: "1,000 x 64 bytes", job: cluster("flat:1:1000:64000/sgd", 1, 2), local: true, requests: 1000, bytes: 128},
	}, requestLine, []string{"parameters", "transport", "pushed and pulled", "EDL, a step", "one machine, a step",
		"round trips of 64 bytes over sockets"}},
	{whole, "A whole job, from the start of its cluster to its end: 404 records in batches of 20, 20 passes, a lease of 2 s", []row{
		{label: "fit_a_line 50x4", job: rounds.Job{Workload: line, Trainers: 50, Pservers: 4, Lease: 2, Passes: 20, Records: 404}},
	}, wholeLine, []string{"job", "transport", "wall time", "CPU time", "steps", "roles started again"}},
	{sparse, "Sparse gradients beside PyTorch: 2 trainers, 2 pservers, batches of 1,024, two tables of 1,000,001 rows; DDP with 2 processes", []row{
		{label: "CTR (DeepFM), SGD", job: cluster(ctr+"/sgd", 2, 2), ddp: "ctr/sgd", goroutines: true, local: true},
		{label: "CTR (DeepFM), Adam", job: cluster(ctr+"/adam", 2, 2), ddp: "ctr/adam", goroutines: true, local: true},
		{label: "the same, tables on pservers alone", job: cluster("ctr_tables:1024/adam", 2, 2), ddp: "ctr/adam", goroutines: true, local: true},
		{label: "the same, tables that grow", job: cluster("ctr_keys:1024/adam", 2, 2), ddp: "ctr/adam", goroutines: true, local: true},
	}, stepLines, stepHeading},
}

func transferRow(label string, bytes int) row {
	r := row{label: label, job: cluster(fmt.Sprintf("flat:1:1:%d/sgd", bytes), 1, 2), local: true, bytes: bytes}
	r.job.MinBlock = 1 // one slice for each pserver
	return r
}

package main

import (
	"fmt"
	"strings"
)

// A section is a table of the report: what is measured by whom.
type section struct {
	title      string
	column     string // heading of the first column
	contenders []string
	rate       bool // give operations a second instead of the time of a step
	rows       []row
}

// A row is a workload with what stands for it in the table.
type row struct {
	label    string
	workload string
	x        float64 // what grows; 0 where nothing does
}

// Names of the contenders.
const (
	edl      = "EDL"
	pytorch  = "PyTorch"
	openblas = "OpenBLAS"
	gorgonia = "gorgonia"
)

var tables = []section{
	{"Matrix products", "M x K x N", []string{edl, openblas}, true, []row{
		{"512 x 512 x 512", "sgemm:512x512x512", 0},
		{"64 x 784 x 200", "sgemm:64x784x200", 0},
		{"128 x 1024 x 1024", "sgemm:128x1024x1024", 0},
		{"512 x 400 x 400", "sgemm:512x400x400", 0},
	}},
	{"Training steps", "workload", []string{edl, pytorch, gorgonia}, false, []row{
		{"fit_a_line, SGD", "fit_a_line/sgd", 0},
		{"MLP, SGD", "mlp/sgd", 0},
		{"MLP, Adam", "mlp/adam", 0},
		{"conv net, Adam", "conv/adam", 0},
		{"CTR (DeepFM), SGD", "ctr/sgd", 0},
		{"CTR (DeepFM), Adam", "ctr/adam", 0},
		{"word2vec, SGD", "word2vec/sgd", 0},
		{"LSTM, Adam", "lstm/adam", 0},
	}},
}

// growth are networks of fully connected layers, trained with SGD, in which one thing grows.
var growth = []section{
	{"Step time against batch: 784-200-200-10", "batch", []string{edl, pytorch}, false, grow([]int{1, 4, 16, 64, 256, 1024, 4096},
		func(n int) string { return fmt.Sprintf("fc:%d:784-200-200-10/sgd", n) })},
	{"Step time against layers: 200 wide, batch 64", "layers", []string{edl, pytorch}, false, grow([]int{1, 2, 5, 10, 20, 50, 100},
		func(n int) string { return "fc:64:200-" + strings.Repeat("200-", n-1) + "10/sgd" })},
	{"Step time against parameters: one square layer, batch 64", "parameters", []string{edl, pytorch}, false, square()},
}

func grow(values []int, workload func(n int) string) []row {
	rows := make([]row, len(values))
	for i, n := range values {
		rows[i] = row{fmt.Sprint(n), workload(n), float64(n)}
	}
	return rows
}

// square grows the number of parameters from about 10^3 to 10^8.
func square() []row {
	var rows []row
	for i, side := range []int{26, 94, 311, 995, 3157, 9994} {
		parameters := side*side + side + side*10 + 10
		rows = append(rows, row{fmt.Sprintf("10^%d", i+3), fmt.Sprintf("fc:64:%d-%d-10/sgd", side, side), float64(parameters)})
	}
	return rows
}

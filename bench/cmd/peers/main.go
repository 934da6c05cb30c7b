// Peers measures EDL, PyTorch, gorgonia and OpenBLAS on this machine and prints the result as Markdown.
//
//	peers [-rounds N] [-seconds S] [-threads 1,2] [-run REGEXP] [-best] [-cpu]  every workload
//	peers -growth [-plot FILE.svg] ...                                          how the cost of a step grows
//
// Each measurement is a process of its own. The contenders take turns, so that a busy or hot machine affects all of them. A measurement is
// repeated, at most -retries times, if other processes used the machine. On a machine that never becomes quiet, -best compares the fastest windows
// of 20 ms and not the median ones, and -cpu compares processor time: what one thread takes while others use its core, too. The processor time of
// several threads counts those that wait for each other. PyTorch comes from Debian: apt-get install python3-torch libopenblas0-openmp. Short
// measurements choose the kernels of OpenBLAS for each row of PyTorch, and the report says which.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"

	"github.com/edl-go/edl/bench/internal/pytorch"
	"github.com/edl-go/edl/fault"
)

// settings are the flags.
type settings struct {
	rounds  int
	seconds float64
	retries int
	calm    float64
	threads []int
	run     *regexp.Regexp
	best    bool
	cpu     bool
	growth  bool
	plot    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := parse(os.Args[1:])
	if err == nil {
		err = compare(ctx, s, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(fault.KindOf(err).ExitCode())
	}
}

func parse(arguments []string) (settings, error) {
	var s settings
	var threads, run string
	flags := flag.NewFlagSet("peers", flag.ExitOnError)
	flags.IntVar(&s.rounds, "rounds", 5, "measurements of each contender")
	flags.Float64Var(&s.seconds, "seconds", 1, "length of a measurement")
	flags.IntVar(&s.retries, "retries", 3, "how often a disturbed measurement is taken again")
	flags.Float64Var(&s.calm, "calm", 0.1, "cores that other processes may use before a measurement counts as disturbed")
	flags.StringVar(&threads, "threads", "1,2", "numbers of threads")
	flags.StringVar(&run, "run", "", "only workloads that match this regular expression")
	flags.BoolVar(&s.best, "best", false, "compare the fastest window of each measurement, not the median one")
	flags.BoolVar(&s.cpu, "cpu", false, "compare processor time, not time by the clock")
	flags.BoolVar(&s.growth, "growth", false, "measure step time against batch, layers and parameters")
	flags.StringVar(&s.plot, "plot", "", "with -growth, draw the result into this SVG or PNG file")
	if err := flags.Parse(arguments); err != nil {
		return s, fault.Wrap(fault.InvalidArgument, "flags", err)
	}
	for _, text := range strings.Split(threads, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return s, fault.E(fault.InvalidArgument, fault.Got("-threads "+threads), fault.Want("numbers of at least 1 with commas between them"))
		}
		s.threads = append(s.threads, n)
	}
	var err error
	if s.run, err = regexp.Compile(run); err != nil {
		return s, fault.Wrap(fault.InvalidArgument, "-run", err)
	}
	if s.rounds < 1 || flags.NArg() > 0 {
		return s, fault.E(fault.InvalidArgument, fault.Got(strings.Join(arguments, " ")), fault.Want("at least one round and no arguments"))
	}
	return s, nil
}

// compare measures what s asks for and writes the report.
func compare(ctx context.Context, s settings, out io.Writer) error {
	dir, err := os.MkdirTemp("", "edl-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	chosen := map[key]string{}
	all, err := prepare(ctx, dir, chosen)
	if err != nil {
		return err
	}
	sections := tables
	if s.growth {
		sections = growth
	}
	if err := chooseKernels(ctx, s, sections, all, pytorch.Kernels(), chosen); err != nil {
		return err
	}
	limits := newMachine()
	limits.measure(s.threads)
	measured, err := measureAll(ctx, s, sections, all)
	if err != nil {
		return err
	}
	limits.measure(s.threads)
	if err := report(out, s, limits, sections, measured, chosen); err != nil {
		return err
	}
	if s.growth && s.plot != "" {
		return plotGrowth(s, limits, measured)
	}
	return nil
}

// A section is a table of the report: the measured workloads and their contenders.
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
	torch    = "PyTorch"
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
	{"Training steps", "workload", []string{edl, torch, gorgonia}, false, []row{
		{"fit_a_line, SGD", "fit_a_line/sgd", 0},
		{"MLP, SGD", "mlp/sgd", 0},
		{"MLP, Adam", "mlp/adam", 0},
		{"conv net, Adam", "conv/adam", 0},
		{"CTR (DeepFM), SGD", "ctr/sgd", 0},
		{"CTR (DeepFM), Adam", "ctr/adam", 0},
		{"word2vec, SGD", "word2vec/sgd", 0},
		{"LSTM, Adam", "lstm/adam", 0},
		{"LSTM, sentences of 5 to 100 words, Adam", "lstm_ragged/adam", 0},
		{"GRU, sentences of 5 to 100 words, Adam", "gru_ragged/adam", 0},
		{"sentiment by convolutions, 5 to 100 words, Adam", "sentiment_conv/adam", 0},
		{"transformer, base size, Adam", "transformer/adam", 0},
		{"VGG-16, images of 32 x 32, Adam", "vgg16/adam", 0},
		{"ResNet-32, images of 32 x 32, Adam", "resnet32/adam", 0},
		{"depthwise convolutions, images of 32 x 32, Adam", "mobilenet/adam", 0},
	}},
}

// growth has networks of fully connected layers, trained with SGD. In each section one thing grows.
var growth = []section{
	{"Step time against batch: 784-200-200-10", "batch", []string{edl, torch}, false, grow([]int{1, 4, 16, 64, 256, 1024, 4096},
		func(n int) string { return fmt.Sprintf("fc:%d:784-200-200-10/sgd", n) })},
	{"Step time against layers: 200 wide, batch 64", "layers", []string{edl, torch}, false, grow([]int{1, 2, 5, 10, 20, 50, 100},
		func(n int) string { return "fc:64:200-" + strings.Repeat("200-", n-1) + "10/sgd" })},
	{"Step time against parameters: one square layer, batch 64", "parameters", []string{edl, torch}, false, square()},
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

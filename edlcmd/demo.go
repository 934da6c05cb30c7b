package edlcmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
	"github.com/spf13/cobra"
)

func newDemo(c *console) *cobra.Command {
	d := &demo{console: c}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Train digits on one machine and on many, and check that both learn the same",
		Long: `Write a dataset of digits and a program that learns them; train it on this machine, and on a cluster of processes of this
machine in sync and async mode; check with "edl verify" that the cluster computes the same parameters as one process; test what each run learned. Every
command is printed before it runs.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&d.count, "count", 6000, "train on `N` digits")
	cmd.Flags().StringVarP(&d.dir, "out", "o", "", "work in the directory `DIR`, which is kept (default: a temporary one)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if d.dir != "" {
			return d.run(cmd.Context())
		}
		temporary, err := os.MkdirTemp("", "edl-demo-")
		if err != nil {
			return fileFault(os.TempDir(), err)
		}
		defer os.RemoveAll(temporary)
		d.dir = temporary
		fmt.Fprintf(c.out, "The demo works in %s and removes it at its end. To keep the files: edl demo -o DIR\n", d.dir)
		return d.run(cmd.Context())
	}
	return cmd
}

// demoPasses and demoSteps are how often the digits are read, and how many batches the check at the end takes.
const (
	demoPasses = "5"
	demoSteps  = "40"
)

// A demo is one run of "edl demo".
type demo struct {
	console *console
	dir     string
	count   int // of training digits
	rows    []demoRow
}

// A demoRow is one line of the table at the end.
type demoRow struct {
	name     string
	trained  executor.Summary
	accuracy float64 // on the test set
}

// perStep is how long a step took on average.
func (r demoRow) perStep() time.Duration {
	return r.trained.Elapsed / time.Duration(max(r.trained.Steps, 1))
}

func (d *demo) run(ctx context.Context) error {
	if _, err := d.command(ctx, "data", "digits", "-o", d.path("data"), "--count", strconv.Itoa(d.count), "--test", "1000"); err != nil {
		return err
	}
	if err := writeDemoPrograms(d.dir); err != nil {
		return err
	}
	for _, way := range []struct {
		name  string
		flags []string
	}{
		{"local", nil},
		{"remote sync 2x2", []string{"--remote", "--trainers", "2", "--pservers", "2"}},
		{"remote async 2x2", []string{"--remote", "--trainers", "2", "--pservers", "2", "--mode", "async"}},
	} {
		if err := d.train(ctx, way.name, way.flags); err != nil {
			return err
		}
	}
	if _, err := d.command(ctx, "verify", d.path("program.pb"), "--data", d.data(trainSet), "--trainers", "2", "--pservers", "2", "--steps",
		demoSteps); err != nil {
		return err
	}
	return d.table()
}

// train trains in one way, and tests what was learned.
func (d *demo) train(ctx context.Context, name string, flags []string) error {
	model := d.path("model-" + strings.ReplaceAll(name, " ", "-"))
	args := []string{"run", d.path("program.pb"), "--data", d.data(trainSet), "--passes", demoPasses, "--save", model, "--fetch", "accuracy",
		"--every", "100"}
	trained, err := d.command(ctx, append(args, flags...)...)
	if err != nil {
		return err
	}
	tested, err := d.command(ctx, "run", d.path("test.pb"), "--data", d.data(testSet), "--params", model, "--fetch", "accuracy", "--every", "1000")
	if err != nil {
		return err
	}
	accuracy, _ := tested.means.of("accuracy")
	d.rows = append(d.rows, demoRow{name, trained.summary, accuracy})
	return nil
}

// command prints a command line as a user would type it, runs it in this process, and returns what it came to, if it was a run.
func (d *demo) command(ctx context.Context, args ...string) (*runResult, error) {
	words := []string{"$ edl"}
	for _, arg := range args {
		words = append(words, shellWord(arg))
	}
	fmt.Fprintf(d.console.out, "\n%s\n", strings.Join(words, " "))
	var result *runResult
	root := newRoot(&console{in: strings.NewReader(""), out: d.console.out, err: d.console.err, settings: d.console.settings,
		env: func(string) (string, bool) { return "", false }, binary: d.console.binary, ran: func(r *runResult) { result = r }})
	root.SetArgs(args)
	return result, root.ExecuteContext(ctx)
}

// shellWord quotes what a shell would expand.
func shellWord(s string) string {
	if strings.ContainsAny(s, "*?[ '") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// data binds a dataset of the programs to its files.
func (d *demo) data(name string) string { return name + "=" + filepath.Join(d.dir, "data", name+"-*") }

func (d *demo) table() error {
	fmt.Fprintln(d.console.out)
	return writeDemoTable(d.console.out, d.rows)
}

func writeDemoTable(w io.Writer, rows []demoRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TRAINED\tTIME OF A STEP\tRECORDS/S\tTEST ACCURACY")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%.1f %%\n", r.name, milliseconds(r.perStep()), recordRate(r.trained), 100*r.accuracy)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	local, sync := rows[0].perStep(), rows[1].perStep()
	if sync <= local {
		return nil
	}
	_, err := fmt.Fprintf(w, `
The cluster is slower here because the network is small and all processes share this machine. In each round the trainers send gradients
to the parameter servers and fetch parameters. A round took %s longer than a local step of %s. A cluster pays off when the
arithmetic of a step takes much longer than that, and each trainer has cores of its own.
`, milliseconds(sync-local), milliseconds(local))
	return err
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

// demoNetwork reads pictures of digits in batches, and returns the loss and the accuracy.
func demoNetwork(m *layers.Model, dataset string, batch int) (loss layers.Variable) {
	pictures := layers.OpenDataset(m, dataset, layers.Field("image", layers.Dims(784)),
		layers.Field("label", layers.Dims(1), layers.DType(tensor.Int64)))
	read := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(pictures, 6000, 1), batch)))
	ink := layers.Scale(read[0], 0.5, 0.5) // 0 is paper, so that most inputs are silent
	hidden := layers.FC(ink, 256, layers.Act("relu"))
	hidden = layers.FC(hidden, 64, layers.Act("relu"))
	cost, probabilities := layers.SoftmaxWithCrossEntropy(layers.FC(hidden, 10), read[1])
	layers.Accuracy(probabilities, read[1], layers.Name("accuracy"))
	return layers.Mean(cost, layers.Name("loss"))
}

// writeDemoPrograms writes the program that learns and the one that is tested.
func writeDemoPrograms(dir string) error {
	learn := layers.NewModel().Seed(1)
	optimizer.Adam(0.001).Minimize(demoNetwork(learn, trainSet, 100))
	test := layers.NewModel()
	demoNetwork(test, testSet, 100)
	for name, m := range map[string]*layers.Model{"program.pb": learn, "test.pb": test} {
		p, err := m.Program()
		if err != nil {
			return err
		}
		if err := p.Save(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

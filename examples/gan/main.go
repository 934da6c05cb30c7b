// Gan learns to draw digits without being told what a digit is (Goodfellow et al. 2014). A generator makes pictures from random numbers, and a discriminator learns to
// tell them from real ones. Each has a program of its own, and the programs take turns on one executor: parameters of the same name are shared.
//
//	go run ./examples/gan -out /tmp/gan
//	go run ./examples/gan -address 127.0.0.1:7164 -steps 20
//
// Pictures are digits that are rendered from fonts. What the generator draws goes to generated.png.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/dataset/digits"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

const (
	noises = 32 // random numbers from which a picture is made
	pixels = digits.Side * digits.Side
	hidden = 128
)

// connected is a fully connected layer whose parameters have names, so that both programs share them.
func connected(name string, x layers.Variable, size int64, opts ...layers.Option) layers.Variable {
	return layers.FC(x, size, append(opts, layers.Param(layers.ParamAttr{Name: name + ".w"}), layers.Bias(layers.ParamAttr{Name: name + ".b"}))...)
}

// generate makes pictures, whose pixels lie between -1 and 1.
func generate(noise layers.Variable) layers.Variable {
	h := connected("generator.1", noise, hidden, layers.Act("relu"))
	h = connected("generator.2", h, 2*hidden, layers.Act("relu"))
	return connected("generator.3", h, pixels, layers.Act("tanh"), layers.Name("picture"))
}

// discriminate returns the logit of the probability that a picture is real.
func discriminate(picture layers.Variable) layers.Variable {
	h := layers.LeakyRelu(connected("discriminator.1", picture, 2*hidden), 0.2)
	h = layers.LeakyRelu(connected("discriminator.2", h, hidden), 0.2)
	return connected("discriminator.3", h, 1)
}

// judged is the cost of logits of which all should say the same.
func judged(logit layers.Variable, real float64) layers.Variable {
	want := layers.Scale(layers.ZerosLike(logit), 0, real)
	return layers.Mean(layers.SigmoidCrossEntropyWithLogits(logit, want))
}

// A player is a program that trains either network.
type player struct {
	*program.Program
	loss string
}

// build makes the program in which the parameters with a prefix are trained to lower a loss.
func build(trained string, loss func(m *layers.Model, noise layers.Variable) layers.Variable) (player, error) {
	m := layers.NewModel().Seed(1)
	minimized := loss(m, layers.Data(m, "noise", layers.Dims(noises)))
	var own []layers.Variable
	for _, p := range m.Parameters() {
		if len(p.Name()) > len(trained) && p.Name()[:len(trained)] == trained {
			own = append(own, p)
		}
	}
	optimizer.Adam(5e-4, optimizer.Betas(0.5, 0.999)).Minimize(minimized, own...)
	p, err := m.Program()
	return player{p, minimized.Name()}, err
}

// players makes both programs. Real pictures are 1, generated ones 0 for the discriminator, and 1 for the generator, which wants them to pass.
func players() (discriminator, generator player, err error) {
	discriminator, err = build("discriminator", func(m *layers.Model, noise layers.Variable) layers.Variable {
		found := judged(discriminate(layers.Data(m, "real", layers.Dims(pixels))), 0.9)
		return layers.Add(found, judged(discriminate(generate(noise)), 0), layers.Name("loss"))
	})
	if err != nil {
		return discriminator, generator, err
	}
	generator, err = build("generator", func(_ *layers.Model, noise layers.Variable) layers.Variable {
		return layers.Assign(judged(discriminate(generate(noise)), 1), layers.Name("loss"))
	})
	return discriminator, generator, err
}

// feeds makes batches of real pictures and of random numbers.
type feeds struct {
	random *rand.Rand
	real   *digits.Renderer
	next   int
}

func newFeeds() (*feeds, error) {
	real, err := digits.NewRenderer(1)
	return &feeds{rand.New(rand.NewPCG(1, 5)), real, 0}, err
}

func (f *feeds) noise(rows int) (*tensor.Tensor, error) {
	values := make([]float32, rows*noises)
	for i := range values {
		values[i] = float32(f.random.NormFloat64())
	}
	return tensor.FromSlice(values, int64(rows), noises)
}

func (f *feeds) pictures(rows int) (*tensor.Tensor, error) {
	values := make([]float32, rows*pixels)
	for i := range rows {
		f.real.Render(f.next, values[i*pixels:][:pixels])
		f.next++
	}
	return tensor.FromSlice(values, int64(rows), pixels)
}

// train lets the programs take turns for a number of steps, in batches of rows. After each it tells the losses.
func train(ctx context.Context, exe executor.Executor, steps, rows int, tell func(step int, discriminator, generator float64)) error {
	discriminator, generator, err := players()
	if err != nil {
		return err
	}
	f, err := newFeeds()
	if err != nil {
		return err
	}
	turn := func(p player, feed executor.Feed) (float64, error) {
		noise, err := f.noise(rows)
		if err != nil {
			return 0, err
		}
		feed["noise"] = noise
		fetched, err := exe.Run(ctx, p.Program, feed, p.loss)
		if err != nil {
			return 0, err
		}
		return executor.Scalar(fetched[0]), nil
	}
	for step := range steps {
		real, err := f.pictures(rows)
		if err != nil {
			return err
		}
		d, err := turn(discriminator, executor.Feed{"real": real})
		if err != nil {
			return err
		}
		g, err := turn(generator, executor.Feed{})
		if err != nil {
			return err
		}
		tell(step, d, g)
	}
	return nil
}

// side is the number of generated pictures in a row of the file, and of its rows.
const side = 8

// draw writes a file of generated pictures.
func draw(ctx context.Context, exe executor.Executor, path string) error {
	_, generator, err := players()
	if err != nil {
		return err
	}
	p, err := generator.InferenceProgram([]string{"noise"}, []string{"picture"})
	if err != nil {
		return err
	}
	f, err := newFeeds()
	if err != nil {
		return err
	}
	noise, err := f.noise(side * side)
	if err != nil {
		return err
	}
	made, err := exe.Run(ctx, p, executor.Feed{"noise": noise}, "picture")
	if err != nil {
		return err
	}
	sheet := image.NewGray(image.Rect(0, 0, side*digits.Side, side*digits.Side))
	for i, v := range made[0].Float32s() {
		n, y, x := i/pixels, i/digits.Side%digits.Side, i%digits.Side
		sheet.SetGray(n%side*digits.Side+x, n/side*digits.Side+y, color.Gray{Y: uint8(127.5 * (v + 1))})
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(png.Encode(file, sheet), file.Close())
}

func main() {
	out := flag.String("out", ".", "directory to write generated.png to")
	address := flag.String("address", "", "listener of a cluster; empty: this machine")
	steps := flag.Int("steps", 2000, "turns of each program")
	flag.Parse()
	if err := run(context.Background(), *out, *address, *steps, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, address string, steps int, w io.Writer) (err error) {
	var exe executor.Executor = executor.New(executor.WithWorkers(2))
	if address != "" {
		if exe, err = remote.NewExecutor(address, &remote.JobSpec{Trainers: 2, Pservers: 2}); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	err = train(ctx, exe, steps, 64, func(step int, discriminator, generator float64) {
		if step%100 == 0 || step == steps-1 {
			fmt.Fprintf(w, "step %4d  loss of the discriminator %.3f  of the generator %.3f\n", step, discriminator, generator)
		}
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	path := filepath.Join(out, "generated.png")
	if err := draw(ctx, exe, path); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, "wrote", path)
	return err
}

package remote_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

func regression(t *testing.T) (*program.Program, string) {
	t.Helper()
	m := layers.NewModel().Seed(7)
	x := layers.Data(m, "x", layers.Dims(13))
	y := layers.Data(m, "y", layers.Dims(1))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(layers.FC(x, 8, layers.Act("tanh")), 1), y))
	optimizer.Adam(0.01).Minimize(loss)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p, loss.Name()
}

func batch(t *testing.T, step, rows int) executor.Feed {
	t.Helper()
	xs, ys := make([]float32, rows*13), make([]float32, rows)
	for i := range xs {
		xs[i] = float32((i*7+step*13)%31)/31 - 0.5
	}
	for i := range ys {
		ys[i] = float32((i*3+step)%11) / 11
	}
	x, err := tensor.FromSlice(xs, int64(rows), 13)
	if err != nil {
		t.Fatal(err)
	}
	y, err := tensor.FromSlice(ys, int64(rows), 1)
	if err != nil {
		t.Fatal(err)
	}
	return executor.Feed{"x": x, "y": y}
}

func TestFedClusterEqualsReference(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {2, 2}, {3, 4}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			p, loss := regression(t)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			want, err := reference.New(p, size[0])
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			got, err := remote.NewExecutor("", &remote.JobSpec{Trainers: int32(size[0]), Pservers: int32(size[1]), Mode: job.Mode_SYNC, MinBlockSize: 16,
				StartDeadline: durationpb.New(20 * time.Second)})
			if err != nil {
				t.Fatal(err)
			}
			defer got.Close()
			for step := range 5 {
				feed := batch(t, step, []int{8, 8, 2, 7, 8}[step])
				a, err := want.Run(ctx, p, feed, loss)
				if err != nil {
					t.Fatal(err)
				}
				b, err := got.Run(ctx, p, feed, loss)
				if err != nil {
					t.Fatal(err)
				}
				if a[0].Float32s()[0] != b[0].Float32s()[0] {
					t.Fatalf("step %d: loss %v, reference %v", step, b[0].Float32s(), a[0].Float32s())
				}
			}
		})
	}
}

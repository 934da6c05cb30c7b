package layers_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
)

func ExamplePrint() {
	s := newSketch()
	layers.Print(s.numbers("x", 2, 1, 2, 3, 4), "what came in")
	p, _ := s.Program()
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	local := executor.New(executor.WithLogger(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelInfo + 1, ReplaceAttr: noTime}))))
	defer local.Close()
	if _, err := local.Run(context.Background(), p, s.feed); err != nil {
		fmt.Println(err)
	}
	// Output: level=INFO+1 msg="what came in" step=0 variable=x dtype=float32 shape="[2 2]" layout=NCHW data="[1 2 3 4]"
}

func ExampleAssert() {
	s := newSketch()
	x := s.numbers("x", 1, 1, 2)
	layers.Assert(layers.ReduceAll(layers.LessThan(x, layers.FillConstant(s.Model, 3, []int64{1}))), x)
	s.print(x)
	// Output: [2 1] [1 2]
}

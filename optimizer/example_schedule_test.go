package optimizer_test

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// printRates prints the learning rate that a schedule gives in some steps.
func printRates(schedule optimizer.Schedule, steps ...int) {
	m := layers.NewModel()
	step := m.State("step", tensor.Float32, []int64{1}, layers.Constant(-1))
	layers.Increment(step, 1)
	rate := schedule(step)
	p, err := m.Program()
	if err != nil {
		fmt.Println(err)
		return
	}
	local := executor.New()
	defer local.Close()
	for n := range steps[len(steps)-1] + 1 {
		fetched, err := local.Run(context.Background(), p, nil, rate.Name())
		if err != nil {
			fmt.Println(err)
			return
		}
		if n == steps[0] {
			fmt.Printf("step %d: %.3g\n", n, fetched[0].Float32s()[0])
			steps = steps[1:]
		}
	}
}

// The rate is multiplied by 0.5 every 10 steps, at once rather than little by little.
func ExampleExponential() {
	printRates(optimizer.Exponential(0.8, 10, 0.5, true), 0, 9, 10, 20)
	// Output:
	// step 0: 0.8
	// step 9: 0.8
	// step 10: 0.4
	// step 20: 0.2
}

func ExampleNaturalExp() {
	printRates(optimizer.NaturalExp(0.8, 10, 0.5, false), 0, 10, 20)
	// Output:
	// step 0: 0.8
	// step 10: 0.485
	// step 20: 0.294
}

func ExampleInverseTime() {
	printRates(optimizer.InverseTime(0.8, 10, 1, false), 0, 10, 30)
	// Output:
	// step 0: 0.8
	// step 10: 0.4
	// step 30: 0.2
}

// A straight line to 0.1 in 10 steps, which stays there.
func ExamplePolynomial() {
	printRates(optimizer.Polynomial(0.8, 10, 0.1, 1, false), 0, 5, 10, 20)
	// Output:
	// step 0: 0.8
	// step 5: 0.45
	// step 10: 0.1
	// step 20: 0.1
}

// Ten epochs of two steps each.
func ExampleCosine() {
	printRates(optimizer.Cosine(0.8, 2, 10), 0, 10, 18)
	// Output:
	// step 0: 0.8
	// step 10: 0.4
	// step 18: 0.0196
}

// The rate rises for 100 steps, and falls with the square root of the step from then on.
func ExampleNoam() {
	printRates(optimizer.Noam(64, 100), 9, 99, 399)
	// Output:
	// step 9: 0.00125
	// step 99: 0.0125
	// step 399: 0.00625
}

// A schedule starts after ten steps of a rising rate.
func ExampleLinearWarmup() {
	printRates(optimizer.LinearWarmup(0.5, 10, 0, 0.5), 0, 5, 10, 20)
	// Output:
	// step 0: 0
	// step 5: 0.25
	// step 10: 0.5
	// step 20: 0.5
}

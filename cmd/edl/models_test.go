package main

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/executor"
)

// oneHouse is the input whose price the authors of the uci_housing model published.
const oneHouse = "0.0137,-0.1136,0.2553,-0.0692,0.0582,-0.0727,-0.1583,-0.0584,0.6283,0.4919,0.1856,0.0795,-0.0332\n"

func TestHousingModelGivesThePublishedPrice(t *testing.T) {
	model := testdata(t, "models", "uci_housing")
	near(t, fetchedBy(t, "run", model, "--feed", "x="+writeFeed(t, "x.csv", oneHouse)), []float64{18.901151657104492}, 4e-6)
}

// The line of 2018 is computed once more here, from its 13 weights.
func TestLineOf2018(t *testing.T) {
	model := testdata(t, "models", "fit_a_line_2018")
	p, _, err := loadProgram(model)
	if err != nil {
		t.Fatal(err)
	}
	scope := executor.NewScope()
	if err := executor.LoadParams(scope, model, p); err != nil {
		t.Fatal(err)
	}
	w, _ := scope.Find("fc_0.w_0")
	b, _ := scope.Find("fc_0.b_0")
	want := float64(b.Float32s()[0])
	for i, weight := range w.Float32s() {
		want += float64(weight) * float64(i) / 4
	}
	house := "0,0.25,0.5,0.75,1,1.25,1.5,1.75,2,2.25,2.5,2.75,3\n"
	near(t, fetchedBy(t, "run", model, "--feed", writeFeed(t, "x.csv", house)), []float64{want}, 1e-5*math.Abs(want))
}

func TestPongPlayer(t *testing.T) {
	model := testdata(t, "models", "dqn_pong")
	state := make([]uint8, 4*84*84)
	for i := range state {
		state[i] = uint8(i)
	}
	path := filepath.Join(t.TempDir(), "state.npy")
	writeArray(t, path, "|u1", []int64{1, 4, 84, 84}, state)
	want := []float64{0.49592587, 0.51072258, 0.44459975, 0.60065556, 0.41136983, 0.58217990}
	near(t, fetchedBy(t, "run", model, "--feed", "state="+path), want, 1e-5)
}

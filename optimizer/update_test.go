package optimizer_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// A reference computes the next value of a parameter from the present one, its gradient and the number of the step from 1.
type reference func(p, g float64, t int) float64

func TestUpdatesComputeTheirFormulas(t *testing.T) {
	cases := []struct {
		name      string
		optimizer *optimizer.Optimizer
		param     layers.ParamAttr
		reference func() reference
	}{
		{"sgd with a factor", optimizer.SGD(0.1), layers.ParamAttr{LearningRate: 0.5}, func() reference {
			return func(p, g float64, _ int) float64 { return p - 0.1*0.5*g }
		}},
		{"momentum", optimizer.Momentum(0.1, 0.9), layers.ParamAttr{}, func() reference {
			v := 0.0
			return func(p, g float64, _ int) float64 {
				v = 0.9*v + g
				return p - 0.1*v
			}
		}},
		{"nesterov", optimizer.Momentum(0.1, 0.9, optimizer.Nesterov()), layers.ParamAttr{}, func() reference {
			v := 0.0
			return func(p, g float64, _ int) float64 {
				v = 0.9*v + g
				return p - 0.1*(g+0.9*v)
			}
		}},
		{"adam", optimizer.Adam(0.1, optimizer.Betas(0.8, 0.9), optimizer.Epsilon(1e-4)), layers.ParamAttr{}, func() reference {
			m, v := 0.0, 0.0
			return func(p, g float64, t int) float64 {
				m, v = 0.8*m+0.2*g, 0.9*v+0.1*g*g
				rate := 0.1 * math.Sqrt(1-math.Pow(0.9, float64(t))) / (1 - math.Pow(0.8, float64(t)))
				return p - rate*m/(math.Sqrt(v)+1e-4)
			}
		}},
		{"adamax", optimizer.Adamax(0.1, optimizer.Betas(0.8, 0.9)), layers.ParamAttr{}, func() reference {
			m, u := 0.0, 0.0
			return func(p, g float64, t int) float64 {
				m, u = 0.8*m+0.2*g, math.Max(math.Abs(g), 0.9*u+1e-8)
				return p - 0.1/(1-math.Pow(0.8, float64(t)))*m/u
			}
		}},
		{"adagrad", optimizer.Adagrad(0.1, optimizer.Epsilon(0.01)), layers.ParamAttr{}, func() reference {
			m := 0.0
			return func(p, g float64, _ int) float64 {
				m += g * g
				return p - 0.1*g/(math.Sqrt(m)+0.01)
			}
		}},
		{"decayed adagrad", optimizer.DecayedAdagrad(0.1, optimizer.Decay(0.7)), layers.ParamAttr{}, func() reference {
			m := 0.0
			return func(p, g float64, _ int) float64 {
				m = 0.7*m + 0.3*g*g
				return p - 0.1*g/(math.Sqrt(m)+1e-6)
			}
		}},
		{"adadelta", optimizer.Adadelta(optimizer.Decay(0.7), optimizer.Epsilon(0.01)), layers.ParamAttr{}, func() reference {
			a, b := 0.0, 0.0
			return func(p, g float64, _ int) float64 {
				a = 0.7*a + 0.3*g*g
				d := -math.Sqrt((b+0.01)/(a+0.01)) * g
				b = 0.7*b + 0.3*d*d
				return p + d
			}
		}},
		{"centered rmsprop", optimizer.RMSProp(0.1, optimizer.Decay(0.7), optimizer.WithMomentum(0.5), optimizer.Centered(),
			optimizer.Epsilon(0.01)), layers.ParamAttr{}, func() reference {
			s, c, m := 0.0, 0.0, 0.0
			return func(p, g float64, _ int) float64 {
				s, c = 0.7*s+0.3*g*g, 0.7*c+0.3*g
				m = 0.5*m + 0.1*g/math.Sqrt(s-c*c+0.01)
				return p - m
			}
		}},
		{"adamw", optimizer.AdamW(0.1, optimizer.Betas(0.8, 0.9), optimizer.Epsilon(1e-4), optimizer.WeightDecay(0.3)), layers.ParamAttr{}, func() reference {
			m, v := 0.0, 0.0
			return func(p, g float64, t int) float64 {
				m, v = 0.8*m+0.2*g, 0.9*v+0.1*g*g
				rate := 0.1 * math.Sqrt(1-math.Pow(0.9, float64(t))) / (1 - math.Pow(0.8, float64(t)))
				return p*(1-0.1*0.3) - rate*m/(math.Sqrt(v)+1e-4)
			}
		}},
		{"proximal gd", optimizer.ProximalGD(0.1, optimizer.Penalties(0.2, 0.3)), layers.ParamAttr{}, func() reference {
			return func(p, g float64, _ int) float64 {
				q := p - 0.1*g
				return math.Copysign(math.Max(0, math.Abs(q)-0.1*0.2), q) / (1 + 0.1*0.3)
			}
		}},
		{"proximal adagrad", optimizer.ProximalAdagrad(0.1, optimizer.Penalties(0.2, 0.3)), layers.ParamAttr{}, func() reference {
			m := 0.0
			return func(p, g float64, _ int) float64 {
				m += g * g
				q := p - 0.1*g/math.Sqrt(m)
				return math.Copysign(math.Max(0, math.Abs(q)-0.1*0.2), q) / (1 + 0.1*0.3)
			}
		}},
		{"ftrl", optimizer.Ftrl(0.1, optimizer.Penalties(0.1, 0.2)), layers.ParamAttr{}, func() reference {
			n, z := 0.0, 0.0
			return func(p, g float64, _ int) float64 {
				next := n + g*g
				z += g - (math.Sqrt(next)-math.Sqrt(n))/0.1*p
				n = next
				if math.Abs(z) <= 0.1 {
					return 0
				}
				return (math.Copysign(0.1, z) - z) / (math.Sqrt(n)/0.1 + 0.4)
			}
		}},
		{"clip by value, then L2", optimizer.SGD(0.1, optimizer.ClipGradients(optimizer.ByValue(-0.5, 0.25)),
			optimizer.Regularize(layers.L2(0.3))), layers.ParamAttr{}, func() reference {
			return func(p, g float64, _ int) float64 { return p - 0.1*(math.Min(math.Max(g, -0.5), 0.25)+0.3*p) }
		}},
		{"clip by norm, then the parameter's own L1",
			optimizer.SGD(0.1, optimizer.ClipGradients(optimizer.ByNorm(0.5)), optimizer.Regularize(layers.L2(0.3))),
			layers.ParamAttr{Regularizer: layers.L1(0.2)}, func() reference {
				return func(p, g float64, _ int) float64 {
					return p - 0.1*(g*math.Min(1, 0.5/math.Abs(g))+math.Copysign(0.2, p))
				}
			}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := layers.NewModel()
			x := layers.Data(m, "x", layers.Dims(1), double)
			c.param.Name, c.param.Initializer = "w", layers.Constant(0.75)
			c.optimizer.Minimize(layers.Mean(layers.Square(layers.FC(x, 1, layers.NoBias(), layers.Param(c.param)))))
			p := build(t, m)
			one, _ := tensor.FromSlice([]float64{1}, 1, 1)
			machine := start(t, p, map[string]*tensor.Tensor{"x": one})
			next, want := c.reference(), 0.75
			for step := 1; step <= 8; step++ {
				machine.run(p.Global().Ops)
				want = next(want, 2*want, step)
				if got := machine.scalar("w"); math.Abs(got-want) > 1e-6 { // attributes and rates are float32
					t.Fatalf("step %d: w = %v, want %v", step, got, want)
				}
			}
		})
	}
}

func TestGlobalNormIsThatOfAllGradients(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(2), double)
	output := layers.FC(x, 1, layers.Param(layers.ParamAttr{Name: "w", Initializer: layers.Constant(0)}), layers.Bias(layers.ParamAttr{Name: "b"}))
	optimizer.SGD(1, optimizer.ClipGradients(optimizer.ByGlobalNorm(6.5))).Minimize(layers.Mean(output)) // gradients: x and 1
	p := build(t, m)
	row, _ := tensor.FromSlice([]float64{4, -12}, 1, 2)
	machine := start(t, p, map[string]*tensor.Tensor{"x": row})
	machine.run(p.Global().Ops)
	factor := 6.5 / math.Sqrt(4*4+12*12+1)
	w := machine.Vars["w"].Float64s()
	for i, want := range []float64{-4 * factor, 12 * factor} {
		if math.Abs(w[i]-want) > 1e-12 {
			t.Errorf("w[%d] = %v, want %v", i, w[i], want)
		}
	}
	if got := machine.scalar("b"); math.Abs(got+factor) > 1e-12 {
		t.Errorf("b = %v, want %v", got, -factor)
	}
	for _, op := range p.Global().Ops {
		if op.Type == "sqrt" && len(op.RoleVars()) != 2 {
			t.Errorf("the norm belongs to %v", op.RoleVars())
		}
	}
}

package main

import "github.com/mmcloughlin/avo/reg"

// optimizer emits updates of a parameter and its state in one pass, in the order of operations of package kernel's portable
// functions and without fusing, so that both give the same bits.
func optimizer(u *asmFile) {
	for _, s := range []stream{
		{name: "momentum", doc: "velocity = mu*velocity + grad; param -= lr*velocity",
			arrays: []string{"><param", "><velocity", "grad"}, scalars: []string{"lr", "mu"},
			body: pure(func(u *asmFile, in, s vectors) vectors {
				velocity := u.add(u.mul(s[1], in[1]), in[2])
				return vectors{u.sub(in[0], u.mul(s[0], velocity)), velocity}
			})},
		{name: "nesterov", doc: "velocity = mu*velocity + grad; param -= (grad + mu*velocity)*lr",
			arrays: []string{"><param", "><velocity", "grad"}, scalars: []string{"lr", "mu"},
			body: pure(func(u *asmFile, in, s vectors) vectors {
				velocity := u.add(u.mul(s[1], in[1]), in[2])
				ahead := u.add(in[2], u.mul(s[1], velocity))
				return vectors{u.sub(in[0], u.mul(ahead, s[0])), velocity}
			})},
		{name: "adagrad", doc: "moment += grad*grad; param -= lr*grad/(sqrt(moment)+epsilon)",
			arrays: []string{"><param", "><moment", "grad"}, scalars: []string{"lr", "epsilon"},
			body: pure(func(u *asmFile, in, s vectors) vectors {
				moment := u.add(in[1], u.mul(in[2], in[2]))
				step := u.div(u.mul(s[0], in[2]), u.add(u.sqrt(moment), s[1]))
				return vectors{u.sub(in[0], step), moment}
			})},
		{name: "adam",
			doc:    "moment1 = beta1*moment1 + rest1*grad; moment2 = beta2*moment2 + rest2*grad*grad; param -= rate*(moment1/(sqrt(moment2)+epsilon))",
			arrays: []string{"><param", "><moment1", "><moment2", "grad"}, scalars: []string{"rate", "beta1", "rest1", "beta2", "rest2", "epsilon"},
			body: pure(func(u *asmFile, in, s vectors) vectors {
				moment1 := u.add(u.mul(s[1], in[1]), u.mul(s[2], in[3]))
				moment2 := u.add(u.mul(s[3], in[2]), u.mul(u.mul(s[4], in[3]), in[3]))
				step := u.mul(s[0], u.div(moment1, u.add(u.sqrt(moment2), s[5])))
				return vectors{u.sub(in[0], step), moment1, moment2}
			})},
	} {
		s.unroll = 1
		s.emit(u)
	}
}

func (u *asmFile) sqrt(x reg.VecVirtual) reg.VecVirtual {
	out := u.YMM()
	u.VSQRTPS(x, out)
	return out
}

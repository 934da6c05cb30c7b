package program

// aliases are ops that Paddle writes under another name where the way differs in which it runs them: for inference, or in the backward pass.
var aliases = map[string]string{
	"conditional_block_infer": "conditional_block",
	"grad_add":                "elementwise_add",
}

// renameAliases gives each of them the name of the op that it is.
func renameAliases(p *Program) {
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			if name, ok := aliases[op.Type]; ok {
				op.Type = name
			}
		}
	}
}

//go:build gpu

package cuda

import "github.com/dptrain/dptrain/internal/op"

func (c *compiler) convolutions(spec op.Spec, k call) bool { return false }

//go:build tools

package internaldeps

import (
	_ "github.com/NVIDIA/go-nvml/pkg/nvml"
	_ "github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	_ "github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	_ "github.com/fsnotify/fsnotify"
	_ "github.com/go-gota/gota/dataframe"
	_ "github.com/olekukonko/tablewriter"
	_ "github.com/santhosh-tekuri/jsonschema/v6"
	_ "github.com/shirou/gopsutil/v3/cpu"
	_ "github.com/shirou/gopsutil/v3/disk"
	_ "github.com/shirou/gopsutil/v3/host"
	_ "github.com/shirou/gopsutil/v3/load"
	_ "github.com/shirou/gopsutil/v3/mem"
	_ "github.com/shirou/gopsutil/v3/process"
	_ "github.com/spf13/cobra"
	_ "github.com/spf13/pflag"
	_ "github.com/spf13/viper"
	_ "github.com/vbauerster/mpb/v8"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "gonum.org/v1/gonum/mat"
	_ "gonum.org/v1/gonum/optimize"
	_ "gonum.org/v1/gonum/stat/distuv"
	_ "gonum.org/v1/plot"
	_ "gonum.org/v1/plot/vg/vgsvg"
	_ "gopkg.in/yaml.v3"
	_ "pgregory.net/rapid"
)

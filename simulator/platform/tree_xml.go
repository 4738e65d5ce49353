package platform

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// WriteXML writes the tree as a SimGrid platform (version 4.1) for Batsim, as HDeepRM generates it: every core is a host, the
// master host is apart. A host has four power states: at work; at work while bandwidth is short (3/4 of the speed); idle while
// another core of its processor works (1/4 of the power); idle (1/20), in which it begins. What cores share is not in it.
func (t *Tree) WriteXML(w io.Writer) error {
	b := bufio.NewWriter(w)
	b.WriteString(`<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="main" routing="Full">
    <zone id="master" routing="None">
      <host id="master_host" speed="1Gf">
        <prop id="watt_per_state" value="0.0:0.0"/>
      </host>
    </zone>
`)
	for k := range t.Clusters {
		t.writeCluster(b, k)
	}
	for k := range t.Clusters {
		writeLink(b, "    ", fmt.Sprintf("glob_lnk_%d", k), t.Global)
	}
	for k := range t.Clusters {
		for _, r := range []struct{ src, dst, gwSrc, gwDst, direction string }{
			{"master", fmt.Sprintf("clu_%d", k), "master_host", fmt.Sprintf("rou_%d", k), "DOWN"},
			{fmt.Sprintf("clu_%d", k), "master", fmt.Sprintf("rou_%d", k), "master_host", "UP"},
		} {
			fmt.Fprintf(b, `    <zoneRoute src="%s" dst="%s" gw_src="%s" gw_dst="%s" symmetrical="NO">
      <link_ctn id="glob_lnk_%d" direction="%s"/>
    </zoneRoute>
`, r.src, r.dst, r.gwSrc, r.gwDst, k, r.direction)
		}
	}
	b.WriteString("  </zone>\n</platform>\n")
	return b.Flush()
}

func writeLink(b *bufio.Writer, indent, id string, l Link) {
	fmt.Fprintf(b, "%s<link id=\"%s\" sharing_policy=\"SPLITDUPLEX\" bandwidth=\"%s\" latency=\"%s\"/>\n", indent, id,
		attribute(l.Bandwidth), attribute(l.Latency))
}

// attribute is text as it may stand between quotation marks.
func attribute(text string) string {
	var s strings.Builder
	_ = xml.EscapeText(&s, []byte(text)) // a Builder takes everything
	return s.String()
}

func (t *Tree) writeCluster(b *bufio.Writer, k int) {
	c := t.Clusters[k]
	fmt.Fprintf(b, "    <zone id=\"clu_%d\" routing=\"Full\">\n      <router id=\"rou_%d\"/>\n", k, k)
	for node := c.First; node < c.First+c.Nodes; node++ {
		writeLink(b, "      ", fmt.Sprintf("udl_%d", node), c.Local)
		n := t.Nodes[node]
		for _, p := range t.Processors[n.First : n.First+n.Processors] {
			watts := make([]string, 4)
			for state, share := range []float64{1, 1, 0.25, 0.05} {
				watts[state] = fmt.Sprintf("%.3f:%.3f", share*p.Watts, share*p.Watts)
			}
			for core := p.First; core < p.First+p.Cores; core++ {
				fmt.Fprintf(b, `      <host id="cor_%d" pstate="3" speed="%.3fGf, %.3fGf, 0.001f, 0.001f">
        <prop id="watt_per_state" value="%s"/>
      </host>
`, core, p.GFLOPS, 0.75*p.GFLOPS, strings.Join(watts, ", "))
			}
		}
	}
	for node := c.First; node < c.First+c.Nodes; node++ {
		n := t.Nodes[node]
		for _, p := range t.Processors[n.First : n.First+n.Processors] {
			for core := p.First; core < p.First+p.Cores; core++ {
				fmt.Fprintf(b, `      <route src="rou_%d" dst="cor_%d" symmetrical="NO">
        <link_ctn id="udl_%d" direction="DOWN"/>
      </route>
      <route src="cor_%d" dst="rou_%d" symmetrical="NO">
        <link_ctn id="udl_%d" direction="UP"/>
      </route>
`, k, core, node, core, k, node)
			}
		}
	}
	b.WriteString("    </zone>\n")
}

#!/bin/sh
# Written by muster-agent: dhclient(8) and dhcpcd(8) call it when the lease of a link changes. It notes what is leased.
# For dhclient, which sets nothing by itself, it also puts it on the link: beside what is there, so that nothing of a
# network document is ever flushed. Hooks of others are not run.
set -f
link=$interface
case $reason in *6) family=6 ;; *) family=4 ;; esac

note() { # NAME TEXT
  [ -d "$dir" ] || exit 0
  printf '%s\n' "$2" >"$dir/$1.new" && mv "$dir/$1.new" "$dir/$1"
}

set_dns() { # SERVERS DOMAINS
  [ "$dns" = yes ] && [ -d "$dir" ] || return 0
  : >"$dir/servers.$family"
  for server in $1; do echo "nameserver $server" >>"$dir/servers.$family"; done
  rm -f "$dir/domains.$family"
  [ -z "$2" ] || echo "search $2" >"$dir/domains.$family"
  set +f
  all=$(cat "$all"/*/domains.[46] "$all"/*/servers.[46] 2>/dev/null)
  mine=$(sed -n 's/^nameserver //p' "$dir"/servers.[46] 2>/dev/null)
  set -f
  if [ -L "$resolv_conf" ]; then
    case $(readlink "$resolv_conf") in
      */systemd/resolve/*)
        # shellcheck disable=SC2086 # words are meant
        resolvectl dns "$link" $mine && { [ -z "$2" ] || resolvectl domain "$link" $2; }
        ;;
    esac
  else
    case $all in
      *nameserver*)
        printf '# Written by muster-agent from leases of DHCP.\n%s\n' "$all" >"$resolv_conf.muster" &&
          mv "$resolv_conf.muster" "$resolv_conf"
        ;;
    esac
  fi
}

add_route() { # DESTINATION/LENGTH ROUTER
  case $1 in */0) [ "$default_route" = yes ] || return 0 ;; esac
  if [ "$2" = 0.0.0.0 ]; then
    ip -4 route add "$1" dev "$link" proto dhcp
  else
    ip -4 route add "$1" via "$2" dev "$link" proto dhcp || ip -4 route add "$1" via "$2" dev "$link" proto dhcp onlink
  fi 2>/dev/null
  # One that is there already stays.
  return 0
}

# RFC 3442: LENGTH, as many octets as that needs, and the router's four, again and again; it counts more than routers.
add_classless() {
  while [ $# -ge 5 ]; do
    length=$1 destination= i=0
    shift
    [ "$length" -le 32 ] || return 0
    while [ $i -lt 4 ]; do
      if [ $((i * 8)) -lt "$length" ]; then
        destination=$destination.$1
        shift
      else
        destination=$destination.0
      fi
      i=$((i + 1))
    done
    [ $# -ge 4 ] || return 0
    add_route "${destination#.}/$length" "$1.$2.$3.$4"
    shift 4
  done
}

bound4() {
  if [ "$client" = dhclient ]; then
    if [ -n "$old_ip_address" ] && [ "$old_ip_address" != "$new_ip_address" ]; then
      ip -4 address del "$old_ip_address/${old_subnet_mask:-32}" dev "$link"
    fi
    ip -4 address replace "$new_ip_address/${new_subnet_mask:-32}" ${new_broadcast_address:+broadcast "$new_broadcast_address"} \
      valid_lft "${new_dhcp_lease_time:-forever}" preferred_lft "${new_dhcp_lease_time:-forever}" dev "$link"
    old="$old_ip_address $old_routers $old_rfc3442_classless_static_routes"
    new="$new_ip_address $new_routers $new_rfc3442_classless_static_routes"
    case $reason in RENEW | REBIND) ;; *) old= ;; esac
    if [ "$old" != "$new" ]; then
      ip -4 route flush dev "$link" proto dhcp
      if [ -n "$new_rfc3442_classless_static_routes" ]; then
        # shellcheck disable=SC2086
        add_classless $new_rfc3442_classless_static_routes
      else
        for router in $new_routers; do add_route 0.0.0.0/0 "$router"; done
      fi
    fi
  fi
  # Last: the agent takes it for all of the lease.
  set_dns "$new_domain_name_servers" "${new_domain_search:-$new_domain_name}"
  note lease.4 "$new_ip_address"
}

bound6() {
  address=${new_ip6_address:-$new_dhcp6_ia_na1_ia_addr1}
  [ -n "$address" ] || return 0
  if [ "$client" = dhclient ]; then
    if [ -n "$old_ip6_address" ] && [ "$old_ip6_address" != "$address" ]; then
      ip -6 address del "$old_ip6_address/${old_ip6_prefixlen:-128}" dev "$link"
    fi
    ip -6 address replace "$address/${new_ip6_prefixlen:-128}" dev "$link" \
      valid_lft "${new_max_life:-forever}" preferred_lft "${new_preferred_life:-forever}"
  fi
  set_dns "$new_dhcp6_name_servers" "$new_dhcp6_domain_search"
  note lease.6 "$address"
}

gone() {
  if [ "$client" = dhclient ]; then
    if [ $family = 4 ] && [ -n "$old_ip_address" ]; then
      ip -4 address del "$old_ip_address/${old_subnet_mask:-32}" dev "$link"
      ip -4 route flush dev "$link" proto dhcp
    elif [ $family = 6 ] && [ -n "$old_ip6_address" ]; then
      ip -6 address del "$old_ip6_address/${old_ip6_prefixlen:-128}" dev "$link"
    fi
  fi
  rm -f "$dir/lease.$family"
  set_dns '' ''
}

case $reason in
  PREINIT) [ "$client" != dhclient ] || ip link set dev "$link" up ;;
  PREINIT6)
    ip link set dev "$link" up
    # The client speaks from this address, which is not to be had at once.
    i=0
    while [ $i -lt 100 ] && ! ip -6 -o address show dev "$link" scope link -tentative | grep -q inet6; do
      sleep 0.1
      i=$((i + 1))
    done
    ;;
  BOUND | RENEW | REBIND | REBOOT | TIMEOUT) bound4 ;;
  BOUND6 | RENEW6 | REBIND6 | REBOOT6) bound6 ;;
  DEPREF6) ip -6 address change "$cur_ip6_address/${cur_ip6_prefixlen:-128}" dev "$link" preferred_lft 0 ;;
  EXPIRE | FAIL | RELEASE | NAK | EXPIRE6 | RELEASE6) gone ;;
esac 2>/dev/null
exit 0

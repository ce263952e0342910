"""A real Heat in this process, for scripts that record its answers: its own engine, with SQLite in memory.

What Heat would ask other services is answered here: Keystone by Heat's own stand-in, Neutron by one network, Swift by nothing,
and servers by outputs that say what they are of.
"""

import json
import logging
import uuid

from oslo_config import cfg
from oslo_log import log

log.register_options(cfg.CONF)
logging.disable(logging.CRITICAL)
cfg.CONF([], project='heat', prog='heat-engine')

from heat.common import config  # noqa: E402,F401
from heat.common import context  # noqa: E402
from heat.common import messaging  # noqa: E402
from heat.db import api as db_api  # noqa: E402
from heat.db import models  # noqa: E402
from heat.engine import constraints  # noqa: E402
from heat.engine import resource  # noqa: E402
from heat.engine import resources  # noqa: E402
from heat.engine import scheduler  # noqa: E402
from heat.engine import service  # noqa: E402
from heat.engine import stack_lock  # noqa: E402
from heat.engine.clients import client_plugin  # noqa: E402
from heat.engine.clients.os import neutron  # noqa: E402
from heat.engine.clients.os import swift  # noqa: E402
from heat.engine.clients.os.keystone import heat_keystoneclient  # noqa: E402,F401
from heat.engine.resources.openstack.heat import deployed_server  # noqa: E402
from heat.rpc import client as rpc_client  # noqa: E402
from neutronclient.common import exceptions  # noqa: E402
from oslo_db import options  # noqa: E402
from oslo_messaging.rpc import dispatcher  # noqa: E402


class Thread:
    """Work that has ended already."""

    def link(self, func, *args):
        func(self, *args)


class Threads:
    """Runs each operation where it is asked for."""

    def start(self, stack_id, func, *args, **kwargs):
        func(*args, **kwargs)
        return Thread()

    def start_with_lock(self, ctx, stack, engine_id, func, *args, **kwargs):
        lock = stack_lock.StackLock(ctx, stack.id, engine_id)
        lock.acquire()
        func(*args, **kwargs)
        if not stack.persist_state_and_release_lock(engine_id):
            lock.release()
        return Thread()

    def add_msg_queue(self, stack_id, queue):
        pass

    def remove_msg_queue(self, thread, stack_id, queue):
        pass


class Direct(rpc_client.EngineClient):
    """Calls the engine in this process."""

    def __init__(self, engine, cloud):
        self.engine, self.cloud = engine, cloud

    def call(self, ctx, message, version=None, timeout=None):
        name, arguments = message
        try:
            answer = getattr(self.engine, name)(ctx, **arguments)
        except dispatcher.ExpectedException as error:
            raise error.exc_info[1]
        if name == 'create_software_deployment' and arguments['action'] != 'INIT':
            self.deploy(ctx, answer)
        elif name == 'update_software_deployment' and arguments['status'] == 'IN_PROGRESS':
            self.deploy(ctx, answer)
        return answer

    cast = call

    def deploy(self, ctx, deployment):
        """A server's answer: each output says what it is of, as simulated servers of Muster's tests do."""
        if deployment['status'] != 'IN_PROGRESS':
            return
        config = self.engine.show_software_config(ctx, deployment['config_id'])
        text = config['config'] if isinstance(config['config'], str) else json.dumps(config['config'])
        outputs = {one['name']: f'{one["name"]} of {text}' for one in config['outputs']}
        if 'hostname' in outputs:
            outputs['hostname'] = self.cloud.servers[deployment['server_id']]
        outputs.update(deploy_stdout=text, deploy_stderr='', deploy_status_code=0)
        self.engine.signal_software_deployment(ctx, deployment['id'], outputs, None)


class Cloud:
    """Neutron, with one network of one subnet, and the names of servers."""

    NET, SUBNET = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))

    def __init__(self):
        self.ports = {}
        self.servers = {}

    def list_networks(self, **given):
        return {'networks': [self.show_network(self.NET)['network']]}

    def show_network(self, network, **given):
        return {'network': {'id': self.NET, 'name': 'ctlplane', 'subnets': [self.SUBNET], 'mtu': 1500, 'tags': []}}

    def list_subnets(self, **given):
        return {'subnets': [self.show_subnet(self.SUBNET)['subnet']]}

    def show_subnet(self, subnet, **given):
        return {'subnet': {'id': self.SUBNET, 'name': 'ctlplane-subnet', 'network_id': self.NET, 'cidr': '192.0.2.0/24',
                           'gateway_ip': '192.0.2.254', 'dns_nameservers': [], 'host_routes': []}}

    def create_port(self, body):
        port = dict(body['port'], id=str(uuid.uuid4()), status='ACTIVE')
        address = f'192.0.2.{len(self.ports) + 1}'
        port['fixed_ips'] = [{'subnet_id': self.SUBNET, 'ip_address': address}]
        self.ports[port['id']] = port
        return {'port': port}

    def show_port(self, port, **given):
        return {'port': self.ports[port]}

    def replace_tag(self, kind, port, body):
        self.ports[port].update(body)

    def find_resource(self, kind, name, *given, **more):
        known = {'network': self.NET, 'subnet': self.SUBNET}
        if kind not in known:
            raise exceptions.NotFound(message=f'{kind} {name}')
        return {'id': known[kind]}


class Swift:
    """Takes what it is given."""

    url = 'https://swift.example/v1'

    def head_account(self):
        return {'x-account-meta-temp-url-key': 'key'}

    def put_container(self, container):
        pass

    def put_object(self, container, name, text):
        pass


def caller():
    """Somebody who may do anything in the project 'p'."""
    return context.RequestContext.from_dict({
        'tenant_id': 'p', 'tenant': 'p', 'username': 'u', 'user_id': 'u', 'password': 'p', 'roles': ['admin'], 'is_admin': True,
        'auth_url': 'http://keystone.example/v3', 'auth_token': 't'})


def start(cloud):
    """An engine with an empty database, and a client of it."""
    settings = {
        'convergence_engine': False,
        'enable_stack_abandon': True,
        'max_resources_per_stack': -1,
        'max_nested_stack_depth': 20,
        'max_template_size': 1 << 24,
        'max_json_body_size': 1 << 28,
        'encrypt_parameters_and_properties': False,
        'auth_encryption_key': 'x' * 32,
        'keystone_backend': 'heat.engine.clients.os.keystone.fake_keystoneclient.FakeKeystoneClient',
        'deferred_auth_method': 'password',
        'heat_metadata_server_url': 'http://heat.example:8000',
        'heat_waitcondition_server_url': 'http://heat.example:8000/v1/waitcondition',
    }
    for name, value in settings.items():
        cfg.CONF.set_override(name, value)
    cfg.CONF.register_opt(cfg.IntOpt('rpc_response_timeout', default=600))
    cfg.CONF.set_override('limit_iterators', 1_000_000, group='yaql')
    cfg.CONF.set_override('memory_quota', 1_000_000_000, group='yaql')
    options.set_defaults(cfg.CONF, connection='sqlite://')
    models.BASE.metadata.create_all(db_api.get_engine())
    messaging.setup('fake://', optional=True)
    resources.initialise()
    engine = service.EngineService('host', 'topic')
    # The process has an id of its own once it serves.
    engine.engine_id = 'e'
    engine.thread_group_mgr = Threads()
    direct = Direct(engine, cloud)
    stand_in(direct)
    return direct


def stand_in(direct):
    """Answers for services that are not there."""
    resource.Resource.rpc_client = lambda self: direct
    resource.Resource.is_service_available = classmethod(lambda kind, ctx: (True, None))
    client_plugin.ClientPlugin.url_for = lambda self, **given: 'http://service.example'
    neutron.NeutronClientPlugin._create = lambda self, **given: direct.cloud
    check = constraints.BaseCustomConstraint.validate
    constraints.BaseCustomConstraint.validate = \
        lambda self, value, ctx: '.clients.' in type(self).__module__ or check(self, value, ctx)
    create = deployed_server.DeployedServer.handle_create

    def handle_create(self):
        made = create(self)
        direct.cloud.servers[self.resource_id] = self.properties['name']
        return made

    deployed_server.DeployedServer.handle_create = handle_create
    swift.SwiftClientPlugin._create = lambda self, **given: Swift()
    # Servers have answered before they would read it.
    direct.engine.software_config._push_metadata_software_deployments = lambda *given, **more: None
    scheduler.TaskRunner._sleep = lambda self, wait: None
